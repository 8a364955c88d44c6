"""`kveval recommend` through the command line: what it prints, every exit code, and what is never recommended."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from support.judge_command import kveval
from support.make_run import make_run, make_samples, scored
from support.recommendations import ENGINE_ARGS, VARIANTS, document, losing, run, variant

from kveval.cli.app import main
from kveval.run.directory import RunDirectory


def test_most_memory_first_then_score(tmp_path: Path) -> None:
    answers = {name: scored(share) for name, share in
               (("bf16", 0.9), ("fp8", 0.905), ("fp8-b", 0.91), ("int4", 0.9))}  # fmt: skip
    variants = {"fp8-b": variant("fp8", 1.999), "int4": variant("int4_per_token_head", 3.6)}
    assert document(run(tmp_path / "a", answers, variants))["recommended"] == "int4"
    answers["int4"] = losing(0.2)
    found = document(run(tmp_path / "b", answers, variants))
    assert found["recommended"] == "fp8-b"
    assert {one["variant"]: one["verdict"] for one in found["candidates"]} == {
        "fp8": "pass", "fp8-b": "pass", "int4": "regression",
    }  # fmt: skip


def test_emulated_is_never_recommended_and_names_the_native(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "int8": scored(0.9)}
    path = make_run(
        tmp_path / "run", answers=answers,
        variants={"bf16": VARIANTS["bf16"], "int8": variant("bfloat16", 1.0, emulate="int8")},
    )  # fmt: skip
    result = kveval("recommend", path)
    assert result.code == 5
    assert "stay with bf16: what passes saves no memory in this run" in result.text
    assert "on a GPU, --kv-cache-dtype int8_per_token_head stores it natively" in result.text
    found = document(path)
    assert (found["recommended"], found["serve"]) == (None, None)
    assert found["candidates"][0]["native_equivalent"] == "int8_per_token_head"
    assert found["rollback"]["flags"][:2] == ["--kv-cache-dtype", "bfloat16"]


def test_emulated_int4_has_no_native_counterpart(tmp_path: Path) -> None:
    path = run(
        tmp_path / "run", {"bf16": scored(0.9), "int4": scored(0.9)},
        {"fp8": variant("fp8", 2.0, status="refused", reason="no"), "int4": variant("bfloat16", 1.0, emulate="int4")},
        manifest={"status": "incomplete"},
    )  # fmt: skip
    result = kveval("recommend", path)
    assert result.code == 3
    assert "vLLM has no cache dtype that stores exactly this" in result.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"facts": {"declared": ["effective_cache_dtype"]}}, "what its cache stores is declared"),
        ({"facts": {"declared": ["kv_capacity_tokens"]}}, "what its cache holds is declared"),
        ({"facts": {"effective_cache_dtype": None}}, "does not say what its cache stores"),
        ({"facts": {"effective_cache_dtype": "bfloat16"}}, "frees no memory: its cache stores bfloat16"),
        ({"facts": {"kv_capacity_tokens": 101_000, "kv_capacity_ratio": 1.01}}, "fits 1.01x the baseline's"),
        (
            {"findings": [{"level": "error", "code": "dtype_mismatch", "message": "the server stores bfloat16"}]},
            "measured in spite of dtype_mismatch",
        ),
    ],
)
def test_what_was_not_established_is_not_recommended(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = run(tmp_path / "run", variants={"fp8": variant("fp8", 2.0, **changes)})
    result = kveval("recommend", path)
    assert result.code == 5
    assert "stay with bf16" in result.text
    assert words in result.text


def test_all_lose(tmp_path: Path) -> None:
    path = run(tmp_path / "run", {"bf16": scored(0.9), "fp8": losing(0.3, from_length=8192)})
    result = kveval("recommend", path)
    assert result.code == 1
    assert "stay with bf16: every candidate loses more than the margin" in result.text
    assert "proven safe up to 2,048 tokens" in result.text


def test_open_names_what_would_settle_it(tmp_path: Path) -> None:
    path = run(tmp_path / "run", samples=make_samples(haystacks=8, questions=2))
    result = kveval("recommend", path)
    assert result.code == 5
    assert result.text.count("more questions") == 1
    assert "more contexts) would decide it: kveval sweep --resume --out" in " ".join(result.text.split())
    assert document(path)["candidates"][0]["settling"]["questions_low"] > 0


def test_the_policy_is_the_users(tmp_path: Path) -> None:
    path = run(tmp_path / "run", {"bf16": scored(0.9), "fp8": losing(0.03)})
    assert kveval("recommend", path).code != 0
    assert kveval("recommend", path, "--margin", "0.1").code == 0
    assert kveval("recommend", path, "--margin", "0.1", "--min-baseline-score", "0.99").code == 1


def test_a_refused_candidate_does_not_hide_another(tmp_path: Path) -> None:
    path = run(
        tmp_path / "run",
        variants={"int8": variant("int8_per_token_head", None, status="refused", reason="no backend")},
        manifest={"status": "incomplete"},
    )
    found = document(path)
    assert found["recommended"] == "fp8"
    assert [one["verdict"] for one in found["candidates"]] == ["pass", "infrastructure"]


@pytest.mark.parametrize("status", ["planned", "running", "stopped"])
@pytest.mark.parametrize("name", ["bf16", "fp8", "int8"])
def test_a_cut_run_recommends_nothing(tmp_path: Path, status: str, name: str) -> None:
    variants = {"bf16": dict(VARIANTS["bf16"]), "fp8": dict(VARIANTS["fp8"]), "int8": variant("fp8_e5m2", 2.0)}
    variants[name]["status"] = status
    answers = dict.fromkeys(variants, scored(0.9))
    result = kveval("recommend", run(tmp_path / "run", answers, variants, manifest={"status": "incomplete"}))
    assert result.code == 3
    assert f"the run is not finished ({name} {status}): complete it with `kveval sweep ... --resume`" in result.text
    assert "serve with" not in result.text


def test_warnings_stand_beside_the_flags(tmp_path: Path) -> None:
    finding = {"level": "warning", "code": "scales_1", "message": "K and V scales are all 1.0"}
    fp8 = variant("fp8", 2.0, findings=[finding])
    fp8["spec"]["engine_args"] = {**ENGINE_ARGS, "gpu-memory-utilization": 0.95}
    found = document(run(tmp_path / "run", variants={"fp8": fp8}))
    assert found["warnings"][0] == "K and V scales are all 1.0"
    assert found["warnings"][1].startswith("gpu-memory-utilization is 0.95, the baseline's None")


class TestWhatCannotBeJudged:
    def test_a_gain_of_another_candidate_that_no_cache_causes(self, tmp_path: Path) -> None:
        """The baseline may have lost half of its answers, and int8 as many."""
        answers = {"bf16": scored(0.5), "fp8": scored(0.9), "int8": scored(0.5)}
        path = run(tmp_path / "run", answers, {"int8": variant("int8_per_token_head", 2.0)})
        found = document(path)
        assert {one["variant"]: one["verdict"] for one in found["candidates"]} == {
            "fp8": "infrastructure", "int8": "pass",
        }  # fmt: skip
        assert (found["recommended"], found["exit_code"]) == (None, 3)
        assert "fp8: scores better than the baseline" in found["reason"]

    def test_still_running(self, tmp_path: Path) -> None:
        path = run(tmp_path / "run")
        with (path / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = kveval("recommend", path)
        assert result.code == 2
        assert "a sweep is still writing here" in result.text

    def test_no_samples(self, tmp_path: Path) -> None:
        result = kveval("recommend", run(tmp_path / "run", samples=[]))
        assert result.code == 2
        assert "holds no samples" in result.text

    def test_a_newer_schema(self, tmp_path: Path) -> None:
        path = run(tmp_path / "run")
        manifest = json.loads(RunDirectory(path).manifest_path.read_text())
        RunDirectory(path).manifest_path.write_text(json.dumps({**manifest, "schema_version": 99}))
        result = kveval("recommend", path)
        assert result.code == 2
        assert "schema_version 99 is newer" in result.text

    @pytest.mark.parametrize("content", ["{", "[]", None])
    def test_broken(self, tmp_path: Path, content: str | None) -> None:
        path = tmp_path / "run"
        path.mkdir()
        if content is not None:
            (path / "manifest.json").write_text(content)
        assert kveval("recommend", path).code == 2

    def test_cut_records(self, tmp_path: Path) -> None:
        path = run(tmp_path / "run")
        records = path / "records" / "fp8.jsonl"
        records.write_text("".join(records.read_text().splitlines(keepends=True)[:-3]))
        result = kveval("recommend", path)
        assert result.code == 2
        assert "the file was cut" in result.text

    def test_no_candidates(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(0.9)}, variants={"bf16": VARIANTS["bf16"]})
        assert kveval("recommend", path).code == 2

    def test_sequences(self, tmp_path: Path) -> None:
        result = kveval("recommend", run(tmp_path / "run"), "--sequences", "0")
        assert result.code == 2
        assert "--sequences: 0 is not allowed" in result.text

    def test_kveval_itself_failing_is_not_every_candidate_losing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def crash(*_: object) -> None:
            raise TypeError("a fault of kveval")

        monkeypatch.setattr("kveval.judge.recommend.recommend.memory", crash)
        monkeypatch.setattr("sys.argv", ["kveval", "recommend", str(run(tmp_path / "run"))])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 70
        assert "kveval itself failed" in capsys.readouterr().err
