"""Which score a number is, and what the other scores of the same samples say."""

from __future__ import annotations

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Attribution, Endpoint, Kind
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.pairing import has_right_answer
from kveval.judge.comparison.scope import Scope, in_scope
from kveval.judge.run_data import RunData
from kveval.judge.statistics.difference import Difference
from kveval.report.labels import answered_label, difference_label
from kveval.run.records import ExpectedMethod

KIND_LABELS: dict[Kind, str] = {
    "greedy": "greedy",
    "probability": "expected probability",
    "token_accuracy": "expected token accuracy",
    "entries": "expected entries",
}


def kind_label(kind: Kind, temperature: float | None = None, method: ExpectedMethod | None = None) -> str:
    """Returns 'greedy', 'expected probability at T 0.6' or 'expected probability at T 1, read stepwise'."""
    at = "" if temperature is None else f" at T {temperature:g}"
    return KIND_LABELS[kind] + at + (", read stepwise" if method == "stepwise" else "")


def name_of(row: Comparison, one: Endpoint) -> str:
    """Names a score of the row. "the rest" are the questions that have no expected score."""
    part = ", the rest" if one is row.rest else ""
    return kind_label(one.kind, one.temperature, one.method) + part


def has_expected(rows: list[Comparison] | tuple[Comparison, ...]) -> bool:
    """Says whether any row has an expected score, so that a table must name the score of each number."""
    return any(row.expected for row in rows)


def shown_label(row: Comparison) -> str | None:
    """Names the score that the row shows. None if it has only one."""
    return name_of(row, row.shown) if row.expected else None


def asked_of_baseline(run: RunData, judgement: Judgement, scope: Scope, kind: Kind, *, scored: int) -> int:
    """Returns how many samples should have a score of this kind from the baseline; `scored` of them have one.

    Only comparisons tell which samples should have an expected score. Without one, it is those that have it.
    """
    if kind == "greedy":
        return int(has_right_answer(in_scope(run.samples, scope, advisory=judgement.policy.advisory)).sum())
    rows = (row for row in judgement.comparisons if row.scope == scope)
    return max([scored, *(one.asked for row in rows for one in row.expected if one.kind == kind)])


def endpoint_label(row: Comparison, one: Endpoint) -> str:
    """Returns one score of the row in a sentence: name, difference, standard error, size, A/A run."""
    parts = [f"{name_of(row, one)} {difference_label(one.difference) or 'not measured'}"]
    if one.difference.se is not None:
        parts.append(f"SE {100 * one.difference.se:.2f}")
    parts.append(f"{answered_label(one)} questions about {one.difference.clusters:,} contexts")
    if one.aa is not None:
        parts.append(f"A/A {difference_label(one.aa)}")
    return ", ".join(parts)


def beside_labels(row: Comparison) -> list[str]:
    """Returns every score that the row has and does not show, one sentence each. Empty if it has only one."""
    return [endpoint_label(row, one) for one in row.beside]


def parts_labels(row: Comparison) -> list[str]:
    """Tells the values of calls and records from the format around them: one sentence for each score that has both."""
    return [
        f"{name_of(row, one)} of calls and records: values {difference_label(one.parts.values)}, output format "
        f"{difference_label(one.parts.format)} points ({one.parts.values.n} questions)"
        for one in row.expected
        if one.parts is not None
    ]


def attribution_labels(row: Comparison) -> list[str]:
    """Says in one sentence for each score how its difference divides into format and kernel: the shown one first."""
    return [
        (f"{name_of(row, one)}: " if row.expected else "") + _split(one.attribution)
        for one in (row.shown, *row.beside)
        if one.attribution is not None and one.attribution.total.n
    ]


def _split(parts: Attribution) -> str:
    return (
        f"{difference_label(parts.total)} points = format {difference_label(parts.format)} + "
        f"kernel {difference_label(parts.kernel)} ({parts.total.n} questions, emulated control {parts.control})"
    )


def contradiction(row: Comparison) -> str | None:
    """Says that greedy answers and an expected score are certain of opposite signs. None if they are not."""
    greedy = row.greedy.difference
    for one in row.expected:
        if _is_certain_loss(greedy) and _is_certain_loss(one.difference, sign=-1):
            return _opposite(row, one, "lose", "gains")
        if _is_certain_loss(greedy, sign=-1) and _is_certain_loss(one.difference):
            return _opposite(row, one, "gain", "loses")
    return None


def _is_certain_loss(found: Difference, sign: int = 1) -> bool:
    end = found.high if sign == 1 else found.low
    return end is not None and sign * end < 0


def _opposite(row: Comparison, one: Endpoint, greedy: str, expected: str) -> str:
    return (
        f"{row.scope}: the scores contradict each other: greedy answers {greedy} "
        f"({difference_label(row.greedy.difference)} points), the {name_of(row, one)} {expected} "
        f"({difference_label(one.difference)} points); look at the flips before you believe either"
    )
