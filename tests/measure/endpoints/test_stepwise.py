"""Servers that already run have expected scores where they tell how probable a given token is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.forcing import reading
from support.scripted_endpoint import ScriptedEndpoint
from support.sweeps import Planner, Servers, codes, records
from support.sweeps import attached_run as run

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.endpoints import endpoint_label


def read_all(servers: Servers, f16: float = -0.1, q8: float = -0.2) -> None:
    for name, logprob in (("f16", f16), ("q8", q8)):
        servers[name].read = reading(lambda _, logprob=logprob: logprob)


def counting(server: ScriptedEndpoint) -> list[int]:
    """Counts the requests that read a token."""
    read, seen = server.read, list[int]()
    assert read is not None
    server.read = lambda body: seen.append(1) or read(body)  # type: ignore[func-returns-value]
    return seen


async def test_every_record_has_an_expected_score_that_says_how_it_was_read(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    read_all(servers)
    plan = plan_for(aa_share=1.0, requests={"serving_temperature": 0.6})

    manifest = await run(plan, tmp_path / "run")

    for name, logprob in (("f16", -0.1), ("f16-aa", -0.1), ("q8", -0.2)):
        facts = manifest.variants[name].facts
        assert (facts.forced_decode, facts.stepwise) == (None, True)
        assert codes(manifest.variants[name])["stepwise"] == "info"
        for record in records(tmp_path / "run", name):
            assert record.expected is not None
            assert (record.expected.method, record.expected.temperature) == ("stepwise", 1.0)
            scored = sum(part is not None for part in plan.references[record.sample_id].texts[0].parts)
            assert record.expected.score == pytest.approx(math.exp(logprob * scored), rel=1e-4)


async def test_a_report_says_that_a_score_was_read_stepwise(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    read_all(servers)
    await run(plan_for(), tmp_path / "run")

    data = load_run(tmp_path / "run")
    [row] = judge_run(data).of("q8", "overall")
    assert endpoint_label(row, row.expected[0]).startswith("expected probability at T 1, read stepwise ")


async def test_a_server_that_does_not_tell_is_judged_by_greedy_answers(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    manifest = await run(plan_for(), tmp_path / "run")
    facts, found = manifest.variants["f16"].facts, manifest.variants["f16"].findings
    assert (facts.forced_decode, facts.stepwise) == (None, False)
    [message] = [finding.message for finding in found if finding.code == "no_forced_decode"]
    assert "does not run inside a server" in message
    assert "does not say how probable a given token is" in message
    assert message.endswith("verdicts rest on greedy answers")
    assert all(record.expected is None for record in records(tmp_path / "run", "f16"))


async def test_a_candidate_is_not_read_where_the_baseline_cannot_be(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    read_all(servers)
    servers["f16"].read = None
    seen = counting(servers["q8"])
    manifest = await run(plan_for(), tmp_path / "run")
    assert manifest.variants["q8"].facts.stepwise is None
    assert "the baseline's are not read so" in str(manifest.variants["q8"].findings)
    assert seen == []


async def test_a_server_without_a_prefix_cache_is_not_asked_for_single_tokens(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    read_all(servers)
    seen = counting(servers["f16"])
    for server in servers.values():
        server.forgets = True
        server.lacks = {"metrics"}
    manifest = await run(plan_for(), tmp_path / "run")
    assert "each token would take a prefill of its own" in str(manifest.variants["f16"].findings)
    assert seen == []


async def test_requests_for_single_tokens_are_planned_to_come_from_the_prefix_cache(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    free = await run(plan, tmp_path / "free")
    read_all(servers)
    read = await run(plan, tmp_path / "read")
    more = read.variants["f16"].planned_hit_tokens - free.variants["f16"].planned_hit_tokens
    assert more == sum(
        (len(sample.prompt) - 1) // 16 * 16 * plan.references[sample.sample_id].tokens for sample in plan.samples
    )


async def test_texts_with_too_many_tokens_are_not_read(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all(servers)
    monkeypatch.setattr("kveval.engines.reading.stepwise.StepwiseDecoder.most_tokens", 1)
    await run(plan_for(), tmp_path / "run")
    found = records(tmp_path / "run", "f16")
    assert all(record.expected is None and record.expected_error is None for record in found)
