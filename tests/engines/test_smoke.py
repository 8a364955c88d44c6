from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.scripted import Reply, always, serving

from kveval.engines.smoke import passage, pick_prompt, plain_prompt, smoke
from kveval.run.facts import Facts, Finding
from kveval.run.manifest import SmokeResult
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.sample import Prompt


def facts(**changes: Any) -> Facts:
    given = {"requested_cache_dtype": "fp8", "storage": "native", "device": "cpu", "prefix_caching": True}
    return Facts.model_validate(given | changes)


def prompt(tokens: int) -> Prompt:
    return Prompt(np.arange(1, tokens + 1, dtype=np.int32), np.zeros(0, np.int32))


def replies(*answers: Reply) -> Iterator[Reply]:
    yield from answers
    while True:
        yield answers[-1]


async def findings_of(
    *answers: Reply, perplexity_logprob: float | None = -3.0, baseline: float | None = None
) -> tuple[SmokeResult, list[Finding]]:
    given = replies(*answers)
    async with serving(lambda _prompt, _body: next(given), max_attempts=1) as (client, server):
        server.perplexity_logprob = perplexity_logprob
        return await smoke(client, [prompt(100)], facts(), baseline)


@pytest.mark.parametrize(
    ("lengths", "facts_", "picked"),
    [
        ([100, 2048, 2049, 9000], facts(), 2049),
        ([100, 9000, 200], facts(max_num_batched_tokens=150), 200),
        ([100, 9000], facts(device="cuda"), 9000),
        ([100, 2048, 500], facts(), 2048),
    ],
)
def test_one_prompt_is_longer_than_a_prefill_chunk_where_there_is_one(
    lengths: list[int], facts_: Facts, picked: int
) -> None:
    assert len(pick_prompt([prompt(length) for length in lengths], facts_)) == picked


async def test_a_sound_engine() -> None:
    result, findings = await findings_of(Reply("a b c"))
    assert findings == []
    assert result == SmokeResult(prompt_tokens=100, perplexity=20.0855, output="a b c", cached_tokens_of_repeat=96)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([Reply("")], "a prompt of 100 tokens: the answer is empty"),
        ([Reply("! " * 15 + "! ")], "the answer is one token over and over: '! ! ! "),
        ([Reply(status=500)], "http_500: HTTP 500"),
        ([Reply("fine"), Reply("a", logprob=float("nan"))], "non_finite: the server returned non-finite logprobs"),
        ([Reply(status=400, message="too long")], "bad_request: HTTP 400: too long"),
    ],
)
async def test_answers_that_are_none(answers: list[Reply], message: str) -> None:
    _, findings = await findings_of(*answers)
    assert [(finding.level, finding.code) for finding in findings] == [("error", "smoke_failed")]
    assert message in findings[0].message


@pytest.mark.parametrize(
    ("logprob", "baseline", "message"),
    [
        (-7.5, None, "perplexity 1808 on plain English: the model does not read"),
        (-5.0, 12.0, "perplexity 148 on plain English, the baseline has 12"),
        (float("nan"), None, "plain text could not be read: the perplexity of plain text is not finite"),
        (None, None, "plain text could not be read: unusable prompt logprobs"),
    ],
)
async def test_plain_text_that_is_not_read(logprob: float | None, baseline: float | None, message: str) -> None:
    _, findings = await findings_of(Reply("a b"), perplexity_logprob=logprob, baseline=baseline)
    assert [(finding.level, finding.code) for finding in findings] == [("error", "smoke_failed")]
    assert message in findings[0].message


async def test_a_repeat_that_differs_is_a_warning() -> None:
    _, findings = await findings_of(Reply("first answer"), Reply("second answer"))
    assert [(finding.level, finding.code) for finding in findings] == [("warning", "smoke_repeat_differs")]


async def test_a_repeat_that_misses_the_prefix_cache_is_a_warning() -> None:
    short = [prompt(16)]
    async with serving(always(Reply("a b")), max_attempts=1) as (client, _):
        _, findings = await smoke(client, short, facts(), None)
        assert [(finding.level, finding.code) for finding in findings] == [("warning", "no_prefix_hit")]
        _, findings = await smoke(client, short, facts(prefix_caching=False), None)
    assert findings == []


async def test_smoke_questions_leave_the_prefix_cache_of_the_samples_alone() -> None:
    async with serving(always(Reply("a b")), max_attempts=1) as (client, server):
        await smoke(client, [prompt(100)], facts(), None)
    assert [body["cache_salt"] for body in server.requests] == ["kveval-smoke"] * 2


def test_a_measurement_without_samples_has_a_plain_prompt() -> None:
    prompt_format = PromptFormat.stand_in()
    made = plain_prompt(prompt_format)
    assert "The harbour was quiet" in prompt_format.decode(made.token_ids())
    assert list(made.tail) == list(prompt_format.suffix_ids)


SOUND = SmokeResult(perplexity=20.0, output="The number is here.", long_output="The number is 5550123.")


async def smoked(
    short: str, long: str, baseline: SmokeResult | None = SOUND, **server: Any
) -> tuple[SmokeResult, list[Finding]]:
    def handler(ids: list[int], _body: dict[str, Any]) -> Reply:
        return Reply(long if len(ids) > 5000 else short)

    async with serving(handler, max_attempts=1) as (client, scripted):
        for key, value in server.items():
            setattr(scripted, key, value)
        return await smoke(client, [prompt(100), prompt(2500), prompt(9000)], facts(), 20.0, baseline)


async def test_the_longest_prompt_is_asked_too() -> None:
    result, findings = await smoked("The number is here.", "The number is 5550123.")
    assert findings == []
    assert (result.prompt_tokens, result.long_prompt_tokens) == (2500, 9000)
    assert result.long_output == "The number is 5550123."
    _, findings = await smoked("The number is here.", "")
    assert "a prompt of 9000 tokens: the answer is empty" in findings[0].message


@pytest.mark.parametrize(
    ("long", "level", "code"),
    [
        ("so on and so on and so on and so on and so on and so on and so on and", "error", "smoke_failed"),
        ("Москва lantern 東京都 Ελλάδα عربية", "error", "smoke_failed"),
        ("the men of the old town had gone to the sea with their boats", "warning", "smoke_long_answer_differs"),
    ],
)
async def test_a_collapse_on_long_prompts_only_is_seen_beside_the_baseline(long: str, level: str, code: str) -> None:
    _, findings = await smoked("The number is there.", long)
    assert [(finding.level, finding.code) for finding in findings] == [(level, code)]
    assert (await smoked("The number is there.", long, baseline=None))[1] == []


async def test_another_answer_to_both_prompts_is_no_collapse_of_long_ones() -> None:
    assert (await smoked("Perhaps elsewhere.", "Nobody knows."))[1] == []


@pytest.mark.parametrize(
    ("logprob", "found"),
    [(-3.0, []), (-3.2, []), (-3.6, [("warning", "smoke_perplexity_rises")]), (-4.3, [("error", "smoke_failed")])],
)
async def test_a_long_passage_is_read_as_the_baseline_reads_it(logprob: float, found: list[tuple[str, str]]) -> None:
    _, findings = await findings_of(Reply("a b c"), perplexity_logprob=logprob, baseline=20.0)
    assert [(finding.level, finding.code) for finding in findings] == found


def test_the_passage_fits_into_the_window() -> None:
    assert len(passage(None)) > 2000
    assert passage(8192) == passage(None)
    for window in (40, 300, 568):
        assert 20 < len(passage(window)) <= 2 * window + 1
    assert passage(None).startswith(passage(300))
