from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.evidence.measures import EVENTS, event_findings, measures
from kveval.judge.run_data import RunData, load_run
from kveval.run.directory import RunDirectory
from kveval.run.records import Record


def run_with(folder: Path, changes: dict[str, dict[str, object]], *, absent: int = 0) -> RunData:
    """Makes a run in which every fifth answer of a variant has these fields."""
    samples = make_samples(haystacks=10, questions=10)
    for row in samples[:absent]:
        row.doc["absent"] = True
    path = make_run(folder / "run", samples=samples, answers={name: scored(0.9) for name in ("bf16", *changes)})
    for name, fields in {"bf16": {}, **changes}.items():
        directory = RunDirectory(path)
        records = list(directory.records(name))
        file = directory.records_path(name)
        lines = [
            record.model_copy(update={"degenerate": "none", **(fields if place % 5 == 0 else {})}).model_dump_json()
            for place, record in enumerate(records)
        ]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_run(path)


def overall(run: RunData, variant: str, name: str):
    [one] = [
        one
        for one in measures(run, confidence=0.95)
        if (one.variant, one.name, one.scope.level) == (variant, name, "overall")
    ]
    return one


def test_each_event_has_a_share_and_a_paired_difference_overall_by_length_and_by_family(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"fp8": {"outcome": "refused", "score": 0.0}})
    one = overall(run, "fp8", "refused")
    assert (one.count, one.own.n, one.own.mean) == (40, 200, pytest.approx(0.2))
    assert one.difference.delta == pytest.approx(0.2)
    assert one.difference.low > 0
    assert overall(run, "bf16", "refused").difference is None
    levels = {(one.scope.level, str(one.scope)) for one in measures(run, confidence=0.95) if one.name == "refused"}
    assert levels == {
        ("overall", "overall"), ("length", "2,048 tokens"), ("length", "8,192 tokens"), ("family", "needle"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"outcome": "refused", "score": 0.0}, "refused_share_differs"),
        ({"degenerate": "loop"}, "degenerate_share_differs"),
        ({"finish_reason": "length"}, "out_of_budget_share_differs"),
    ],
)
def test_a_share_that_differs_is_a_finding(tmp_path: Path, fields: dict[str, object], code: str) -> None:
    run = run_with(tmp_path, {"fp8": fields, "int8": {}})
    found = event_findings(measures(run, confidence=0.95), baseline="bf16", confidence=0.95)
    assert [finding.code for finding in found] == [code]
    assert found[0].message.startswith("fp8 ")
    assert "in 20.0% of 200 answers, bf16 in 0.0%" in found[0].message


def test_only_questions_without_an_answer_are_hallucinated_about(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"fp8": {"outcome": "wrong", "score": 0.0}}, absent=100)
    one = overall(run, "fp8", "hallucinated")
    assert one.own.n == 100
    assert one.count is not None
    assert one.count > overall(run, "bf16", "hallucinated").count
    without = run_with(
        tmp_path / "other", {"fp8": {"outcome": "wrong", "score": 0.0, "degenerate": "loop"}}, absent=100
    )
    assert overall(without, "fp8", "hallucinated").count < one.count
    none = run_with(tmp_path / "none", {"fp8": {}})
    assert "hallucinated" not in {one.name for one in measures(none, confidence=0.95)}


def test_a_run_that_was_not_looked_at_has_no_count_of_zero(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)}))
    names = {one.name for one in measures(run, confidence=0.95)}
    assert names.isdisjoint({"refused", "degenerate"})
    assert set(EVENTS) - {"refused", "degenerate", "hallucinated"} <= names


def test_metrics_are_shown_by_cell(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"fp8": {"metrics": {"f1": 0.0}}})
    for name in ("bf16", "fp8"):
        run.records[name]["metrics"] = [one or {"f1": 1.0} for one in run.records[name]["metrics"]]
    found = [one for one in measures(run, confidence=0.95) if one.name == "f1"]
    assert {(one.variant, one.scope.level) for one in found} == {("bf16", "cell"), ("fp8", "cell")}
    assert {one.count for one in found} == {None}
    fp8 = [one for one in found if one.variant == "fp8"]
    assert all(one.difference.delta == pytest.approx(-0.2) for one in fp8)
    assert all(np.isfinite(one.own.low) for one in fp8)


def test_old_records_are_read_without_the_field() -> None:
    assert Record.model_fields["degenerate"].default is None


def test_the_share_of_the_budget_is_compared_with_the_baselines(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"int4": {"output_tokens": 640, "outcome": "wrong"}})
    budget = run.samples["max_output_tokens"].iloc[0]
    of_int4 = [one for one in measures(run, confidence=0.95) if (one.variant, one.name) == ("int4", "budget_used")]
    assert of_int4
    for one in of_int4:
        assert one.scope.level == "cell"
        assert one.own.mean - one.baseline.mean == pytest.approx(one.difference.delta)
        assert one.difference.delta > 0
        assert one.baseline.mean < 40 / budget
