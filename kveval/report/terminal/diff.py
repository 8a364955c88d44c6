"""Two runs or variants side by side in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.diff import VariantDiff
from kveval.judge.evidence.drift import Drift
from kveval.report.documents.diff import Diff
from kveval.report.endpoints import name_of
from kveval.report.labels import answered_label, difference_label, score_label
from kveval.report.terminal.layout import STYLES, not_judged
from kveval.report.text import visible

_COLUMNS = ("", "n", "before", "after", "points", "lost/\ngained", "same", "adj. p\n(Holm)")


def diff_table(diff: Diff) -> RenderableType:
    """Shows every pair of variants: a row per group of samples, the drift, and the facts that changed."""
    return Stack(*(part for pair, drift in diff.pairs for part in _pair(diff, pair, drift)))


def _pair(diff: Diff, pair: VariantDiff, drift: Drift | None) -> Iterator[RenderableType]:
    first, second = (
        visible(name) + (" (emulated)" if emulated else "")
        for name, emulated in zip((pair.first, pair.second), pair.emulated, strict=True)
    )
    yield Text(f"{second} of {diff.second} against {first} of {diff.first}", style="bold")
    if pair.problem:
        yield not_judged(pair.problem)
    yield _table(pair.comparisons)
    if drift:
        yield Text(
            f"drift over {drift.positions:,} positions: KL at least {drift.kl_mean:.4g} nats, "
            f"same top token {drift.same_top1:.1%}"
        )
    for name, values in pair.changed_facts.items():
        was, now = ("none" if value is None else value for value in values)
        yield Text(visible(f"{name}: {was} -> {now}"), style="yellow")
    yield Text()


def _table(rows: Sequence[Comparison]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for column in _COLUMNS:
        table.add_column(no_wrap=bool(column), overflow="fold")
    table.add_row(*(Text(column, style="underline") for column in _COLUMNS))
    for row in rows:
        p = row.verdict.p_holm if row.verdict else None
        kind = f" ({name_of(row, row.shown)})" if row.expected else ""
        table.add_row(
            Text(visible(str(row.scope)) + kind), Text(answered_label(row)),
            Text(score_label(row.baseline_score.mean)), Text(score_label(row.candidate_score.mean)),
            Text(difference_label(row.difference)), Text(f"{row.flips.lost}/{row.flips.gained}"),
            Text("" if row.identical is None else f"{row.identical:.0%}"),
            Text("" if p is None else f"{p:.2g}", style=STYLES[row.verdict.word] if row.verdict else ""),
        )  # fmt: skip
        for one in row.beside:
            table.add_row(
                Text(f"  beside it: {name_of(row, one)}"), Text(f"{one.difference.n:,}"),
                Text(score_label(one.baseline_score.mean)), Text(score_label(one.candidate_score.mean)),
                Text(difference_label(one.difference)), Text(), Text(), Text(),
            )  # fmt: skip
    return table
