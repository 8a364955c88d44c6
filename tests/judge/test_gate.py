"""The gate through the command line: every exit code, and that nothing broken passes."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.make_run import Answer, make_run, make_samples, scored
from typer.testing import CliRunner

from kveval.cli.app import app
from kveval.errors import KvevalError
from kveval.run.directory import RunDirectory
from kveval.run.records import Outcome
from kveval.run.samples import SampleRow


@dataclass(frozen=True)
class Result:
    code: int
    text: str


def kveval(*arguments: str | Path) -> Result:
    """As `kveval.cli.app.main` ends: a deliberate error is one line and its exit code."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, KvevalError):
        return Result(done.exception.exit_code, f"error: {done.exception}")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, " ".join(done.output.split()))


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return found


def losing(share: float) -> Answer:
    """Wrong on `share` of what the baseline's `scored(0.9)` gets right, spread over all haystacks."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = scored(0.9)(row, rng)
        return ("wrong", "lost") if given and given[0] == "correct" and rng.random() < share else given

    return answer


def failing(share: float) -> Answer:
    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return ("engine_error", "") if rng.random() < share else scored(0.9)(row, rng)

    return answer


GOOD = {"bf16": scored(0.9), "same": scored(0.9)}
BAD = {"bf16": scored(0.9), "int4": losing(0.2)}


class TestQuantization:
    def test_equal_variants_pass(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=GOOD)
        result = kveval("gate", path)
        assert result.code == 0
        assert "gate: pass, exit code 0" in result.text
        found = document(path)
        assert (found["version"], found["verdict"], found["exit_code"]) == (2, "pass", 0)
        assert [(check["kind"], check["variant"]) for check in found["checks"]] == [("quantization", "same")]

    def test_a_loss_is_a_regression(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=BAD)
        result = kveval("gate", path)
        assert result.code == 1
        assert "regression int4" in result.text
        assert document(path)["checks"][0]["blocks"] is True

    def test_few_samples_are_undecided_and_block(self, tmp_path: Path) -> None:
        samples = make_samples(haystacks=8, questions=2)
        path = make_run(tmp_path / "run", samples=samples, answers=GOOD)
        assert kveval("gate", path).code == 5
        result = kveval("gate", path, "--undecided", "allow")
        assert result.code == 0
        assert "gate: undecided, exit code 0 (the policy allows undecided)" in result.text
        assert document(path)["verdict"] == "undecided"

    @pytest.mark.parametrize("share", [1.1, -0.1])
    def test_what_cannot_show_a_loss_is_never_let_through(self, tmp_path: Path, share: float) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(share), "same": scored(share)})
        assert kveval("gate", path, "--undecided", "allow").code == 5

    def test_one_haystack_is_never_let_through(self, tmp_path: Path) -> None:
        samples = make_samples(lengths=(2048,), haystacks=1, questions=400)
        path = make_run(tmp_path / "run", samples=samples, answers=GOOD)
        result = kveval("gate", path, "--undecided", "allow")
        assert result.code == 5
        assert "one haystack: nothing to estimate an error from" in result.text

    def test_all_ties_in_a_few_samples_do_not_pass(self, tmp_path: Path) -> None:
        samples = make_samples(lengths=(2048,), haystacks=18, questions=10)
        path = make_run(tmp_path / "run", samples=samples, answers=GOOD)
        result = kveval("gate", path)
        assert result.code == 5
        assert "a loss of" in result.text
        assert "is not excluded" in result.text

    def test_a_proven_loss_comes_before_what_was_not_measured(self, tmp_path: Path) -> None:
        path = make_run(
            tmp_path / "run",
            answers=BAD,
            variants={"fp8": {"status": "refused", "reason": "the engine ignored the flag"}},
            manifest={"status": "incomplete"},
        )
        assert kveval("gate", path).code == 1
        assert {c["variant"]: c["verdict"] for c in document(path)["checks"]} == {
            "int4": "regression",
            "fp8": "infrastructure",
        }

    def test_the_kernel_is_blamed_where_the_format_is_innocent(self, tmp_path: Path) -> None:
        """300 ten-key samples in 30 haystacks: .910 on BF16, .853 on FP8 (21 down, 4 up), .913 on its control."""
        samples = make_samples(lengths=(2048,))
        ids = [row.sample_id for row in samples]
        order = np.random.default_rng(4).permutation(300)
        right = {
            "bf16": set(order[:273]),
            "fp8": set(order[21:273]) | set(order[273:277]),
            "fp8-control": set(order[1:273]) | set(order[277:279]),
        }

        def answer(name: str) -> Answer:
            def given(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str]:
                return ("correct", "x") if ids.index(row.sample_id) in right[name] else ("wrong", "y")

            return given

        path = make_run(
            tmp_path / "run",
            samples=samples,
            answers={name: answer(name) for name in right},
            variants={"fp8-control": {"role": "control", "of": "fp8"}},
        )
        result = kveval("gate", path)
        assert result.code == 1
        assert "the loss comes from the kernel" in result.text
        check = document(path)["checks"][0]
        assert check["loss_comes_from"] == "kernel"
        overall = check["rows"][0]
        assert (overall["lost"], overall["gained"]) == (21, 4)
        assert overall["delta"] == pytest.approx(-17 / 300)


class TestPolicy:
    def test_a_wider_margin_passes_what_a_narrow_one_does_not(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": losing(0.08)})
        assert kveval("gate", path).code == 1
        assert kveval("gate", path, "--margin", "0.15").code == 0
        assert document(path)["policy"]["margin"] == 0.15

    def test_the_runs_own_configuration_is_the_default(self, tmp_path: Path) -> None:
        path = make_run(
            tmp_path / "run",
            answers={"bf16": scored(0.9), "fp8": losing(0.08)},
            manifest={"config": {"judge": {"margin": 0.15}}},
        )
        assert kveval("gate", path).code == 0
        assert kveval("gate", path, "--margin", "0.02").code == 1

    def test_a_family_with_a_margin_of_its_own_must_hold_it(self, tmp_path: Path) -> None:
        samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=40)

        def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
            return losing(0.05)(row, rng) if row.family == "qa" else scored(0.9)(row, rng)

        path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": answer})
        assert kveval("gate", path, "--margin", "0.1").code == 0
        assert kveval("gate", path, "--margin", "0.1", "--margins", "qa=0.02").code == 1
        margins = {row["family"] or "": row["margin"] for row in document(path)["checks"][0]["rows"]}
        assert margins["qa"] == 0.02
        assert margins["needle"] == 0.1
        assert margins[""] == pytest.approx(0.06)

    @pytest.mark.parametrize(("least", "code"), [("0.5", 0), ("0.92", 5), ("0.99", 1)])
    def test_the_baseline_itself_must_score(self, tmp_path: Path, least: str, code: int) -> None:
        samples = make_samples(haystacks=40)
        path = make_run(tmp_path / "run", samples=samples, answers=GOOD)
        assert kveval("gate", path, "--min-baseline-score", least).code == code

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--margin", "0"], "judge.margin: 0.0 is not allowed"),
            (["--confidence", "1"], "judge.confidence: 1.0 is not allowed"),
            (["--undecided", "ignore"], "judge.undecided: 'ignore' is not allowed"),
            (["--margins", "needle"], "is not NAME=NUMBER"),
            (["--margins", "nedle=0.1"], "did you mean 'needle'?"),
            (["--config", "no-such.yaml"], "neither a file nor a preset"),
        ],
    )
    def test_bad_flags_are_usage(self, tmp_path: Path, flags: list[str], message: str) -> None:
        path = make_run(tmp_path / "run", answers=GOOD)
        result = kveval("gate", path, *flags)
        assert result.code == 2
        assert message in result.text

    def test_a_bad_policy_in_the_run_is_usage(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=GOOD, manifest={"config": {"judge": {"margn": 0.1}}})
        result = kveval("gate", path)
        assert result.code == 2
        assert "unknown key 'margn'; did you mean 'margin'?" in result.text

    def test_an_unknown_option_is_usage(self) -> None:
        assert kveval("gate", "run", "--no-such-option").code == 2
        assert kveval("gate").code == 2


class TestNotes:
    def test_a_control_that_differs_from_itself(self, tmp_path: Path) -> None:
        path = make_run(
            tmp_path / "run",
            answers={**GOOD, "bf16-aa": losing(0.2)},
            variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
        )
        assert kveval("gate", path).code == 0
        (note,) = document(path)["notes"]
        assert note["code"] == "unequal_control"
        assert "the baseline's second run differs from the first" in note["message"]
        assert document(path)["noise"]["lost"] > 50

    def test_a_margin_for_no_family_of_the_run(self, tmp_path: Path) -> None:
        config = {"judge": {"margins": {"nedle": 0.01}}}
        path = make_run(tmp_path / "run", answers=GOOD, manifest={"config": config})
        assert kveval("gate", path).code == 0
        assert document(path)["notes"][0]["code"] == "unused_margin"


class TestInfrastructure:
    @pytest.mark.parametrize("status", ["refused", "failed", "stopped", "running", "planned"])
    @pytest.mark.parametrize("variant", ["bf16", "same", "bf16-aa"])
    def test_a_variant_that_did_not_end(self, tmp_path: Path, status: str, variant: str) -> None:
        path = make_run(
            tmp_path / "run",
            samples=make_samples(haystacks=25, questions=4),
            answers={**GOOD, "bf16-aa": scored(0.9)},
            variants={"bf16-aa": {"role": "aa", "of": "bf16"}} | {
                variant: {"status": status, "reason": "out of memory"}
                | ({"role": "aa", "of": "bf16"} if variant == "bf16-aa" else {})
            },
            manifest={"status": "incomplete"},
        )  # fmt: skip
        result = kveval("gate", path, "--undecided", "allow")
        assert result.code == 3
        assert "out of memory" in result.text

    def test_a_loss_of_a_stopped_variant_is_not_called_a_regression(self, tmp_path: Path) -> None:
        path = make_run(
            tmp_path / "run", answers=BAD, variants={"int4": {"status": "stopped"}}, manifest={"status": "incomplete"}
        )
        assert kveval("gate", path).code == 3

    def test_too_many_engine_errors(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": failing(0.1)})
        result = kveval("gate", path)
        assert result.code == 3
        assert "samples have no answer" in result.text
        assert "allowed 2.0%" in result.text
        assert kveval("gate", path, "--max-unanswered-share", "0.5").code == 5

    def test_a_run_that_was_killed(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=GOOD, manifest={"status": "running", "finished": None})
        result = kveval("gate", path)
        assert result.code == 3
        assert "cut short" in result.text


def truncated_manifest(path: Path) -> None:
    manifest = RunDirectory(path).manifest_path
    manifest.write_bytes(manifest.read_bytes()[:-100])


def newer_schema(path: Path) -> None:
    manifest = RunDirectory(path).manifest_path
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "schema_version": 99}))


def torn_record(path: Path) -> None:
    records = RunDirectory(path).records_path("same")
    records.write_bytes(records.read_bytes()[:-20])


def broken_line(path: Path) -> None:
    records = RunDirectory(path).records_path("same")
    lines = records.read_bytes().split(b"\n")
    lines[3] = lines[3][:40]
    records.write_bytes(b"\n".join(lines))


def no_records(path: Path) -> None:
    RunDirectory(path).records_path("same").unlink()


def no_samples_file(path: Path) -> None:
    RunDirectory(path).samples_path.unlink()


def cut_samples(path: Path) -> None:
    samples = RunDirectory(path).samples_path
    samples.write_bytes(b"\n".join(samples.read_bytes().split(b"\n")[:-2]) + b"\n")


class TestBrokenRuns:
    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (truncated_manifest, "not readable as JSON"),
            (newer_schema, "schema_version 99 is newer"),
            (torn_record, "1 of its 600 records are missing"),
            (broken_line, "same.jsonl:4:"),
            (no_records, "600 of its 600 records are missing"),
            (no_samples_file, "samples.jsonl: is missing; `kveval sweep --resume` writes it again"),
            (cut_samples, "samples that are not the 600 of the manifest"),
        ],
    )
    def test_is_named_and_leaves_no_older_verdict(
        self, tmp_path: Path, damage: Callable[[Path], None], message: str
    ) -> None:
        path = make_run(tmp_path / "run", answers=GOOD)
        assert kveval("gate", path).code == 0
        damage(path)
        result = kveval("gate", path)
        assert result.code == 2
        assert message in result.text
        assert document(path)["verdict"] == "usage"
        assert message in document(path)["reason"]
        assert "<error" in (path / "junit.xml").read_text()
        assert "Nothing was judged" in (path / "summary.md").read_text()

    def test_still_going(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=GOOD)
        with (path / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = kveval("gate", path)
        assert result.code == 2
        assert "a sweep is still writing here" in result.text

    def test_no_samples(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", samples=[], answers=GOOD)
        result = kveval("gate", path)
        assert result.code == 2
        assert "holds no samples" in result.text

    def test_no_candidate(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(0.9)})
        result = kveval("gate", path)
        assert result.code == 2
        assert "no variant to compare" in result.text

    def test_a_crash_is_not_called_a_regression(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = make_run(tmp_path / "run", answers=GOOD)

        def crash(*_: Any, **__: Any) -> None:
            raise TypeError("oops")

        monkeypatch.setattr("kveval.report.files.gate.gate", crash)
        result = kveval("gate", path)
        assert result.code == 3
        assert "kveval itself failed: TypeError: oops" in result.text
        assert document(path)["verdict"] == "infrastructure"

    def test_no_run(self, tmp_path: Path) -> None:
        result = kveval("gate", tmp_path / "nowhere")
        assert result.code == 2
        assert "not a run directory" in result.text
        assert not (tmp_path / "nowhere").exists()
        assert kveval("gate", tmp_path / "nowhere", "--out", tmp_path / "ci").code == 2
        assert document(tmp_path / "ci")["verdict"] == "usage"


class TestOverTime:
    @pytest.fixture
    def blessed(self, tmp_path: Path) -> Path:
        path = make_run(tmp_path / "blessed", answers=GOOD)
        result = kveval("bless", path, "--out", tmp_path / "baselines" / "demo.json")
        assert result.code == 0
        assert "the gate calls this run: pass" in result.text
        return tmp_path / "baselines" / "demo.json"

    def test_the_same_again_passes(self, tmp_path: Path, blessed: Path) -> None:
        path = make_run(tmp_path / "tonight", answers=GOOD)
        assert kveval("gate", path, "--against", blessed).code == 0
        kinds = [(check["kind"], check["variant"]) for check in document(path)["checks"]]
        assert kinds == [("quantization", "same"), ("blessed", "bf16"), ("blessed", "same")]
        assert document(path)["notes"] == []

    def test_an_upgrade_that_hurts_the_baseline_is_caught(self, tmp_path: Path, blessed: Path) -> None:
        facts = {"engine_version": "0.33.0", "storage": "native", "attention_backend": "NEW_ATTN"}
        path = make_run(
            tmp_path / "tonight",
            answers={"bf16": losing(0.1), "same": losing(0.1)},
            variants={"bf16": {"facts": facts}},
        )
        result = kveval("gate", path, "--against", blessed)
        assert result.code == 1
        verdicts = {(check["kind"], check["variant"]): check["verdict"] for check in document(path)["checks"]}
        assert verdicts["blessed", "bf16"] == "regression"
        notes = " ".join(note["message"] for note in document(path)["notes"])
        assert "engine_version was '0.32.0' and is '0.33.0'" in notes
        assert "NEW_ATTN" in notes

    def test_a_looser_policy_is_noted(self, tmp_path: Path, blessed: Path) -> None:
        path = make_run(tmp_path / "tonight", answers=GOOD)
        kveval("gate", path, "--against", blessed, "--margin", "0.2")
        assert "margin was 0.02 and is 0.2" in document(path)["notes"][0]["message"]

    def test_a_new_variant_is_noted(self, tmp_path: Path, blessed: Path) -> None:
        path = make_run(tmp_path / "tonight", answers={**GOOD, "new": scored(0.9)})
        assert kveval("gate", path, "--against", blessed).code == 0
        assert "new was not in the blessed run" in document(path)["notes"][0]["message"]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"samples": make_samples(haystacks=29)}, "20 samples were asked in only one of them"),
            ({"samples": make_samples(tasks={"qa": "qa"})}, "only one of them asked task 'niah_multikey'"),
            ({"manifest": {"inputs": {"model/config.json": "1" * 64}}}, "the model differs (model/config.json)"),
            ({"manifest": {"inputs": {"model": "1" * 64}}}, "the model differs"),
            ({"manifest": {"inputs": {"model": "0" * 64, "tokenizer": "2"}}}, None),
            ({"manifest": {"sampling": {"temperature": 1.0}}}, "'temperature' was 0.0 and is 1.0"),
            ({"answers": {"bf16": scored(0.9)}}, "variant 'same' was blessed and not asked again"),
        ],
    )
    def test_other_questions_are_incomparable(
        self, tmp_path: Path, blessed: Path, changes: dict[str, Any], message: str | None
    ) -> None:
        path = make_run(tmp_path / "tonight", **{"answers": GOOD, **changes})
        result = kveval("gate", path, "--against", blessed)
        if message is None:
            assert result.code == 0
            return
        assert result.code == 4
        assert message in result.text
        assert document(path)["verdict"] == "incomparable"

    def test_another_scorer_is_incomparable(self, tmp_path: Path) -> None:
        inputs = [{"model": "0" * 64, "task/niah_multikey": digit * 64} for digit in "12"]
        before = make_run(tmp_path / "before", answers=GOOD, manifest={"inputs": inputs[0]})
        assert kveval("bless", before, "--out", tmp_path / "b.json").code == 0
        path = make_run(tmp_path / "tonight", answers=GOOD, manifest={"inputs": inputs[1]})
        result = kveval("gate", path, "--against", tmp_path / "b.json")
        assert result.code == 4
        assert "a task or its scorer differs (task/niah_multikey)" in result.text

    def test_other_prompts_are_incomparable(self, tmp_path: Path, blessed: Path) -> None:
        first, *rest = make_samples()
        samples = [first.model_copy(update={"prompt_sha256": "0" * 64}), *rest]
        path = make_run(tmp_path / "tonight", samples=samples, answers=GOOD)
        result = kveval("gate", path, "--against", blessed)
        assert result.code == 4
        assert "the prompts of the same samples differ" in result.text

    def test_an_edited_blessed_file_is_refused(self, tmp_path: Path, blessed: Path) -> None:
        path = make_run(tmp_path / "tonight", answers=GOOD)
        text = blessed.read_text()
        blessed.write_text(text.replace('["wrong"', '["correct"', 1))
        assert blessed.read_text() != text
        result = kveval("gate", path, "--against", blessed)
        assert result.code == 2
        assert "was changed since it was blessed" in result.text

    def test_holm_counts_both_questions(self, tmp_path: Path, blessed: Path) -> None:
        path = make_run(tmp_path / "tonight", answers={"bf16": scored(0.9), "same": losing(0.05)})
        kveval("gate", path)
        alone = document(path)["checks"][0]["rows"][0]
        kveval("gate", path, "--against", blessed)
        together = document(path)["checks"][0]["rows"][0]
        assert together["p"] == alone["p"]
        assert together["p_holm"] > alone["p_holm"]

    def test_what_is_broken_is_not_blessed(self, tmp_path: Path) -> None:
        stopped = make_run(tmp_path / "stopped", answers=GOOD, variants={"same": {"status": "stopped"}})
        assert kveval("bless", stopped, "--out", tmp_path / "b.json").code == 3
        assert kveval("bless", tmp_path / "nowhere", "--out", tmp_path / "b.json").code == 2
        good = make_run(tmp_path / "good", answers=GOOD)
        assert kveval("bless", good, "--out", tmp_path).code == 2
        assert not (tmp_path / "b.json").exists()

    def test_a_failing_run_may_be_blessed_and_says_so(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=BAD)
        result = kveval("bless", path, "--out", tmp_path / "b.json")
        assert result.code == 0
        assert "the gate calls this run: regression" in result.text


class TestDiff:
    def test_two_variants_of_one_run(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers=BAD)
        result = kveval("diff", f"{path}:bf16", f"{path}:int4", "--json")
        assert result.code == 0
        (found,) = json.loads(result.text)["pairs"]
        overall = found["rows"][0]
        assert (found["first"], found["second"]) == ("bf16", "int4")
        assert overall["gained"] == 0
        assert overall["delta"] == pytest.approx(-overall["lost"] / 600)
        assert "int4" in kveval("diff", f"{path}:bf16", f"{path}:int4").text

    def test_two_runs_pair_what_both_have(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers={**GOOD, "old": scored(0.9)})
        second = make_run(tmp_path / "b", answers={**GOOD, "new": scored(0.9)})
        found = json.loads(kveval("diff", first, second, "--json").text)
        assert [pair["first"] for pair in found["pairs"]] == ["bf16", "same"]
        found = json.loads(kveval("diff", f"{first}:old", f"{second}:new", "--json").text)
        assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [("old", "new")]

    def test_a_blessed_file_is_a_side(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers=GOOD)
        kveval("bless", first, "--out", tmp_path / "b.json")
        found = json.loads(kveval("diff", tmp_path / "b.json", first, "--json").text)
        assert [pair["rows"][0]["identical"] for pair in found["pairs"]] == [1.0, 1.0]
        assert found["pairs"][0]["drift"] is None
        found = json.loads(kveval("diff", first, tmp_path / "b.json", "--json").text)
        assert [pair["rows"][0]["identical"] for pair in found["pairs"]] == [1.0, 1.0]

    def test_prompts_without_a_right_answer_show_what_changed_and_never_pass(self, tmp_path: Path) -> None:
        samples = [
            row.model_copy(update={"doc": {**row.doc, "scored": False}}) for row in make_samples(haystacks=30)
        ]  # fmt: skip

        def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str]:
            return "unscored", "some text"

        path = make_run(tmp_path / "run", samples=samples, answers={"bf16": answer, "fp8": answer})
        assert kveval("gate", path, "--undecided", "allow").code == 5
        kveval("bless", path, "--out", tmp_path / "b.json")
        found = json.loads(kveval("diff", path, tmp_path / "b.json", "--json").text)
        assert found["pairs"][0]["rows"][0]["identical"] == 1.0
        assert found["pairs"][0]["rows"][0]["n"] == 0

    def test_what_cannot_be_compared(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers=GOOD)
        other = make_run(tmp_path / "b", samples=make_samples(haystacks=29), answers=GOOD)
        result = kveval("diff", first, other)
        assert result.code == 4
        assert "20 samples were asked in only one of them" in result.text
        assert kveval("diff", f"{first}:bf17", first).code == 2
        assert kveval("diff", tmp_path / "none", first).code == 2
        alone = make_run(tmp_path / "c", answers={"fp8": scored(0.9)})
        assert kveval("diff", first, alone).code == 4


def test_help_has_examples() -> None:
    for command in ("gate", "bless", "diff"):
        assert "Example" in kveval(command, "--help").text


def test_main_ends_with_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kveval.cli.app import main

    monkeypatch.setattr("sys.argv", ["kveval", "gate", str(make_run(tmp_path / "run", answers=BAD))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
