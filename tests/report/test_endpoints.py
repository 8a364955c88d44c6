"""Every number says which score it is, and the other scores of the same questions stand beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from support.make_run import losing, make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.gate.gate import gate
from kveval.judge.run_data import load_run
from kveval.report.documents.diff import compare, diff_document
from kveval.report.documents.summary import summary
from kveval.report.documents.verdict import verdict
from kveval.report.endpoints import (
    attribution_labels,
    beside_labels,
    contradiction,
    endpoint_label,
    kind_label,
    parts_labels,
    shown_label,
)
from kveval.report.files.junit import junit
from kveval.report.files.markdown import markdown
from kveval.report.terminal.diff import diff_table
from kveval.report.terminal.gate import gate_table
from kveval.report.terminal.summary import summary_table
from kveval.run.records import SampleRow

SAMPLES = make_samples(haystacks=8, questions=5, lengths=(2048,))
CONTROL = {"fp8-control": {"role": "control", "of": "fp8"}, "bf16-aa": {"role": "aa", "of": "bf16"}}


def level(loss: float):  # type: ignore[no-untyped-def]
    return lambda row: 0.3 + 0.4 * int(row.sample_id[:4], 16) / 65536 - loss


@pytest.fixture
def path(tmp_path: Path) -> Path:
    expected = {"bf16": level(0.0), "fp8": level(0.1), "bf16-aa": level(0.001), "fp8-control": level(0.02)}
    answers = dict.fromkeys(expected, scored(0.5))
    return make_run(tmp_path / "run", samples=SAMPLES, answers=answers, expected=expected, variants=CONTROL)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return make_run(tmp_path / "plain", samples=SAMPLES, answers={"bf16": scored(0.5), "fp8": scored(0.5)})


def printed(table: object, width: int = 80) -> str:
    console = Console(width=width, record=True, file=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_both_scores_name_their_size_error_and_noise(path: Path) -> None:
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert shown_label(row) == "expected probability at T 1"
    shown = endpoint_label(row, row.shown)
    assert shown.startswith("expected probability at T 1 -10.0 [-10.0, -10.0], SE 0.00, 40 questions about 8 contexts")
    assert shown.endswith("A/A -0.1 [-0.1, -0.1]")
    (beside,) = beside_labels(row)
    assert beside.startswith("greedy +0.0 [")
    assert "A/A +0.0 [" in beside
    expected, greedy = attribution_labels(row)
    assert expected.startswith("expected probability at T 1: -10.0")
    assert "format -2.0" in expected
    assert "kernel -8.0" in expected
    assert greedy.startswith("greedy: ")


def test_a_score_that_was_read_stepwise_says_so(tmp_path: Path) -> None:
    assert kind_label("entries", 1.0, "stepwise") == "expected entries at T 1, read stepwise"
    expected = dict.fromkeys(("bf16", "fp8"), lambda row: {"score": level(0.0)(row), "method": "stepwise"})
    path = make_run(tmp_path / "run", samples=SAMPLES, answers=dict.fromkeys(expected, scored(0.5)), expected=expected)
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert shown_label(row) == "expected probability at T 1, read stepwise"
    assert {row["expected_method"] for row in summary(path)["rows"]} == {"stepwise", None}
    assert ", read stepwise" in printed(summary_table(path))


def test_scores_that_were_read_differently_are_not_compared(tmp_path: Path) -> None:
    expected = {"bf16": level(0.0), "fp8": lambda row: {"score": level(0.0)(row), "method": "stepwise"}}
    path = make_run(tmp_path / "run", samples=SAMPLES, answers=dict.fromkeys(expected, scored(0.5)), expected=expected)
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert (row.expected[0].asked, row.expected[0].difference.n) == (40, 0)
    assert row.verdict is not None
    assert row.verdict.word == "undecided"


def test_values_of_calls_are_told_from_the_format_around_them(tmp_path: Path) -> None:
    def calls(value: float, form: float):  # type: ignore[no-untyped-def]
        return lambda row: {"score": level(value)(row), "parts": {"value": 0.5, "format": 0.9 - form}}

    expected = {"bf16": calls(0.0, 0.0), "fp8": calls(0.1, 0.02)}
    path = make_run(tmp_path / "run", samples=SAMPLES, answers=dict.fromkeys(expected, scored(0.5)), expected=expected)
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert parts_labels(row) == [
        "expected probability at T 1 of calls and records: values -10.0 [-10.0, -10.0], output format "
        "-2.0 [-2.0, -2.0] points (40 questions)"
    ]
    [part] = [
        one["expected"][0]["parts"]
        for one in summary(path)["rows"]
        if one["level"] == "overall" and one["role"] == "candidate"
    ]
    assert part["format"]["delta"] == pytest.approx(-0.02)
    judged = gate(path)
    said = (printed(summary_table(path)), printed(gate_table(judged)), markdown(judged))
    assert all("output format -2.0" in " ".join(text.split()) for text in said)


def test_answers_without_an_output_format_have_no_parts(path: Path) -> None:
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert parts_labels(row) == []
    assert row.expected[0].parts is None


def test_a_verdict_by_greedy_answers_names_the_expected_score(path: Path) -> None:
    (row,) = judge_run(load_run(path), Policy(evidence="greedy")).of("fp8", "overall")
    assert shown_label(row) == "greedy"
    assert beside_labels(row)[0].startswith("expected probability at T 1 -10.0")


def test_both_stand_in_every_document_and_file(path: Path) -> None:
    judged = gate(path)
    (row,) = [row for row in summary(path)["rows"] if row["variant"] == "fp8" and row["level"] == "overall"]
    assert (row["evidence"], row["temperature"]) == ("probability", 1.0)
    assert row["expected"][0]["delta"] == pytest.approx(-0.1)
    assert row["expected"][0]["aa_difference"]["delta"] == pytest.approx(-0.001)
    assert row["expected"][0]["attribution"]["format"]["delta"] == pytest.approx(-0.02)
    assert (row["greedy"]["kind"], row["greedy"]["n"]) == ("greedy", 40)
    for document in (verdict(judged), diff_document(compare(f"{path}:bf16", f"{path}:fp8"))):
        text = json.dumps(document, allow_nan=False)
        assert '"kind": "probability"' in text
        assert '"kind": "greedy"' in text
    for text in (junit(judged), markdown(judged)):
        assert "expected probability at T 1" in text
        assert "beside it: greedy" in text


def test_both_stand_in_every_table(path: Path) -> None:
    table = printed(summary_table(path))
    assert all(len(line.rstrip()) <= 80 for line in table.splitlines())
    assert [line.split()[0] for line in table.splitlines() if line.rstrip().endswith("fail")] == ["probability"] * 2
    assert "probability: expected score, at temperature 1" in table
    assert "beside it: greedy" in " ".join(printed(gate_table(gate(path))).split())
    assert "beside it: greedy" in printed(diff_table(compare(f"{path}:bf16", f"{path}:fp8")), 140)


def test_a_run_of_greedy_answers_says_nothing_of_expected_scores(plain: Path) -> None:
    judged = gate(plain)
    (row,) = judged.judgement.of("fp8", "overall")
    assert shown_label(row) is None
    assert beside_labels(row) == []
    texts = (printed(summary_table(plain)), printed(gate_table(judged)), markdown(judged), junit(judged))
    assert not any("expected" in text.lower().replace("expected `", "") or "beside" in text for text in texts)


def test_samples_without_an_expected_score_stand_apart(tmp_path: Path) -> None:
    samples = make_samples(tasks={"needles": "needle", "lists": "long"}, haystacks=8, questions=5, lengths=(2048,))

    def some(loss: float):  # type: ignore[no-untyped-def]
        return lambda row: level(loss)(row) if row.task == "needles" else "none"

    def answers(row: SampleRow, rng: object) -> object:
        return scored(0.5)(row, rng)  # type: ignore[arg-type]

    expected = {"bf16": some(0.0), "fp8": some(0.1)}
    path = make_run(tmp_path / "run", samples=samples, answers=dict.fromkeys(expected, answers), expected=expected)  # type: ignore[arg-type]
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    rest, greedy = beside_labels(row)
    assert rest.startswith("greedy, the rest ")
    assert "40 questions" in rest
    assert "80 questions" in greedy
    assert "greedy rest" in printed(summary_table(path))


def test_what_the_baseline_could_not_be_forced_to_stays_in_the_count(tmp_path: Path) -> None:
    expected = {"bf16": lambda row: None if int(row.sample_id[:2], 16) < 128 else 0.5, "fp8": level(0.1)}
    path = make_run(tmp_path / "run", samples=SAMPLES, answers=dict.fromkeys(expected, scored(0.5)), expected=expected)
    lost = sum(int(row.sample_id[:2], 16) < 128 for row in SAMPLES)
    assert 0 < lost < 40
    row = next(row for row in summary(path)["rows"] if row["evidence"] == "probability" and row["role"] == "baseline")
    assert (row["asked"], row["n"]) == (40, 40 - lost)
    baseline = printed(summary_table(path)).partition("\nfp8  ")[0]
    assert baseline.count(f"{40 - lost} of 40/") == 2


def test_scores_certain_of_opposite_signs_are_a_finding(tmp_path: Path) -> None:
    samples = make_samples(haystacks=30, questions=5, lengths=(2048,))
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": losing(0.4)},
                    expected={"bf16": level(0.1), "fp8": level(0.0)})  # fmt: skip
    judged = gate(path)
    (row,) = judged.judgement.of("fp8", "overall")
    said = contradiction(row)
    assert said is not None
    assert "greedy answers lose" in said
    assert "gains" in said
    for text in (printed(summary_table(path), 400), printed(gate_table(judged), 400), markdown(judged), junit(judged)):
        assert "the scores contradict each other" in text
    assert json.dumps(verdict(judged)).count("the scores contradict each other") >= 1


def test_scores_that_agree_are_no_finding(path: Path) -> None:
    (row,) = judge_run(load_run(path)).of("fp8", "overall")
    assert contradiction(row) is None
