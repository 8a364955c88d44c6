"""Keys of servers: sent in every request, written nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Reply
from support.scripted_endpoint import BARE, KEY
from support.sweeps import Planner, Servers, records, revoke_after
from support.sweeps import attached_run as run

from kveval.errors import (
    ConfigError,
    EngineError,
    KvevalError,
)  # fmt: skip
from kveval.measure.plan.describe import describe


async def test_the_key_is_sent_and_written_nowhere(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kveval.report.html.report import build_report

    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    for server in servers.values():
        server.api_key = KEY
    plan = plan_for({"api_key_env": "SCRIPTED_KEY"}, {"api_key_env": "SCRIPTED_KEY"})
    known = {tuple(sample.prompt.token_ids().tolist()): number for number, sample in enumerate(plan.samples)}
    answer = servers["q8"].handler

    def repeats_the_key(prompt: list[int], body: dict[str, Any]) -> Reply:
        is_second = known.get(tuple(prompt)) == 1 and body.get("cache_salt") != "kveval-smoke"
        return Reply(status=400, message=f"no answer for {KEY}") if is_second else answer(prompt, body)

    servers["q8"].handler = repeats_the_key
    out = tmp_path / "run"
    await run(plan, out)
    build_report(out)

    assert set(servers["f16"].authorizations) == {f"Bearer {KEY}"}
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"manifest.json", "report.html", "q8.jsonl"} <= {path.name for path in files}
    assert all(KEY.encode() not in path.read_bytes() for path in files)
    assert "no answer for (key)" in (out / "records" / "q8.jsonl").read_text()
    assert KEY not in repr(describe(plan))


def _hidden_in(out: Path) -> None:
    from kveval.report.html.report import build_report

    build_report(out)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"manifest.json", "report.html"} <= {path.name for path in files}
    for path in files:
        assert KEY[:12].encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "change",
    [
        {"answers_as": f"m-{KEY}"},
        {"models": [{"id": "served", "root": f"/m/{KEY}", "max_model_len": 1 << 20}]},
        {"version": KEY},
        {"version": f"1+{KEY[:17]}"},
        {"capacity_tokens": KEY},
        {"says": f"Bearer {KEY}"},
        {"says": KEY[:13]},
        {"says": f"one-{KEY}", "lacks": set(BARE)},
        {"refuses": "x" * 485},
        {"refuses": "x" * 1985},
        {"refuses": ""},
    ],
)
async def test_whatever_a_server_repeats_the_key_in_nothing_that_is_kept_holds_it(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    plan = plan_for({"api_key_env": "SCRIPTED_KEY"}, {"api_key_env": "SCRIPTED_KEY"}, aa_share=1.0)
    answer, known = servers["q8"].handler, {tuple(sample.prompt.token_ids().tolist()) for sample in plan.samples}
    said, refused = change.get("says"), change.get("refuses")

    def repeats_the_key(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = answer(prompt, body)
        if said is not None:
            reply.text += f" {said}"
        is_sample = tuple(prompt) in known and body.get("cache_salt") != "kveval-smoke"
        return reply if refused is None or not is_sample else Reply(status=400, message=refused + KEY)

    for server in servers.values():
        server.api_key = KEY
        server.handler = repeats_the_key
        for name, value in change.items():
            setattr(server, name, value)

    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == ("complete" if refused is None else "incomplete")
    _hidden_in(tmp_path / "run")
    if said is not None:
        assert manifest.variants["q8"].smoke.output.endswith("(key)")
        assert {record.outcome for record in records(tmp_path / "run", "q8")} == {"correct"}


async def test_a_server_whose_refusals_repeat_the_key(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    messages = []
    for number, change in enumerate(
        [
            {"models": [{"id": f"for-{KEY}"}, {"id": "y" * 190 + KEY}]},
            {"handler": lambda *_: Reply(status=404, message="x" * 250 + KEY)},
            {"handler": lambda *_: Reply(status=404, message="x" * 455 + KEY)},
            {"handler": lambda *_: Reply(raw=json.dumps({"error": "x" * 285 + KEY}))},
            {"redirects_to": f"/for/{KEY}"},
        ]
    ):
        plan = plan_for({"api_key_env": "SCRIPTED_KEY"})
        for name, value in change.items():
            setattr(servers["f16"], name, value)
        with pytest.raises(KvevalError) as caught:
            await run(plan, tmp_path / str(number))
        messages.append(str(caught.value))
        assert KEY[:5] not in messages[-1]
        assert KEY[:5] not in (tmp_path / str(number) / "manifest.json").read_text()
        servers["f16"].models = [{"id": "served", "max_model_len": 1 << 20}]
    assert "use: for-(key), yyy" in messages[0]
    assert "sends to another address, /for/(key), and" in messages[-1]


async def test_a_wrong_key(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-wrong")
    servers["f16"].api_key = KEY
    with pytest.raises(EngineError, match=r"HTTP 401, the key in SCRIPTED_KEY is not accepted$") as caught:
        await run(plan_for({"api_key_env": "SCRIPTED_KEY"}), tmp_path / "run")
    assert caught.value.exit_code == 3
    assert "sk-wrong" not in str(caught.value)
    assert "sk-wrong" not in (tmp_path / "run" / "manifest.json").read_text()


async def test_no_key_where_one_is_wanted(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    servers["f16"].api_key = KEY
    with pytest.raises(EngineError, match=r"HTTP 401, it wants a key; set endpoint\.api_key_env"):
        await run(plan_for(), tmp_path / "run")


@pytest.mark.parametrize("value", [None, "", "with space", "line\nbreak", "ключ"])
def test_a_key_that_is_unset_or_none(plan_for: Planner, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("SCRIPTED_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SCRIPTED_KEY", value)
    with pytest.raises(ConfigError, match=r"^variants\.f16\.endpoint\.api_key_env: .*SCRIPTED_KEY") as caught:
        plan_for({"api_key_env": "SCRIPTED_KEY"})
    assert caught.value.exit_code == 2
    assert not value or value not in str(caught.value)


async def test_a_key_revoked_midway_stops_the_variant_and_costs_no_answer(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1})
    revoke_after(servers["q8"], plan, 3, lambda server: setattr(server, "api_key", KEY))

    manifest = await run(plan, tmp_path / "run")

    q8 = manifest.variants["q8"]
    assert q8.status == "stopped"
    assert "HTTP 401" in str(q8.reason)
    assert "attached once more: " in str(q8.reason)
    assert {record.outcome for record in records(tmp_path / "run", "q8")} == {"correct"}
    servers["q8"].api_key = None
    manifest = await run(plan, tmp_path / "run", resume=True)
    assert manifest.status == "complete"
    assert len(records(tmp_path / "run", "q8")) == 6
