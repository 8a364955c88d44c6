"""A run in the terminal: a table of scores, then the reason for each verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison, own_score
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.pairing import has_right_answer
from kveval.judge.comparison.scope import Scope, in_scope, scopes
from kveval.judge.comparison.verdict import points
from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import RunData, load_run
from kveval.report.labels import (
    attribution_label,
    capacity_label,
    difference_label,
    evidence_label,
    other_evidence,
    score_label,
    storage_label,
    with_word,
)
from kveval.report.sections.speculation.section import speculating_variants
from kveval.report.terminal.evidence import cold_lines, speculation_lines
from kveval.report.terminal.layout import STYLES, indented, not_judged
from kveval.report.text import visible
from kveval.run.manifest import VariantRun

_WIDTHS = (7, 18, 5, 22, 11)


def summary_table(run_dir: Path, policy: Policy | None = None) -> RenderableType:
    """Shows a run in 80 columns."""
    run = load_run(run_dir)
    judgement = judge_run(run, policy)
    margin, confidence = points(judgement.policy.margin), judgement.policy.confidence
    title = f"{run.manifest.run_id}: against {run.manifest.baseline}, margin {margin} points"
    header = _grid()
    headings = ("context", "questions/contexts", "score", f"difference [{confidence:.0%}]", "lost/gained", "verdict")
    header.add_row(*(Text(heading, style="bold underline") for heading in headings))
    parts: list[RenderableType] = [*_notices(run, judgement), Text(visible(title), style="bold"), Text(), header]
    for variant in run.baseline_first:
        details = ", ".join(part for part in (storage_label(variant.facts), capacity_label(variant.facts)) if part)
        parts.append(Text.assemble((visible(variant.name), "bold"), "  ", (visible(details), "dim")))
        parts.append(_scores(run, judgement, variant))
    parts += [Text(), *_reasons(run, judgement)]
    for one in speculating_variants(run, judgement):
        parts += speculation_lines(one)
    for check in cold_comparisons(run):
        parts += cold_lines(check)
    return Stack(*parts)


def _grid() -> Table:
    """Returns an empty table: one per variant, with the same widths, so that they align."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for width in _WIDTHS:
        grid.add_column(justify="right", min_width=width, no_wrap=True)
    grid.add_column()
    return grid


def _scores(run: RunData, judgement: Judgement, variant: VariantRun) -> Table:
    grid = _grid()
    if variant.role == "baseline":
        rows = [_baseline_cells(run, judgement, group) for group in scopes(run.samples, "length", "overall")]
    else:
        compared = judgement.of(variant.name, "length", "overall")
        if not any(row.difference.n for row in compared):
            compared = compared[-1:]
        rows = [_cells(row, variant) for row in compared]
    for row in rows:
        grid.add_row(*row)
    return grid


def _baseline_cells(run: RunData, judgement: Judgement, group: Scope) -> list[Text]:
    beside = next((row for row in judgement.comparisons if row.scope == group and row.shown.kind != "greedy"), None)
    if beside is not None:
        # The baseline's score stands above scores of the same kind.
        score = beside.baseline_score
        cells = _first_cells(group, score.n, beside.asked, score.clusters, score.mean)
        return [*cells, Text(), Text(), Text("baseline", "dim")]
    score = own_score(run, run.manifest.baseline, group, confidence=judgement.policy.confidence)
    asked = int(has_right_answer(in_scope(run.samples, group)).sum())
    return [*_first_cells(group, score.n, asked, score.clusters, score.mean), Text(), Text(), Text("baseline", "dim")]


def _cells(row: Comparison, variant: VariantRun) -> list[Text]:
    difference = row.difference
    return [
        *_first_cells(row.scope, difference.n, row.asked, difference.clusters, row.candidate_score.mean),
        Text(difference_label(difference)),
        Text(f"{row.flips.lost}/{row.flips.gained}"),
        _verdict_cell(row, variant),
    ]


def _first_cells(group: Scope, n: int, asked: int, contexts: int, score: float | None) -> list[Text]:
    overall = group.context_length is None
    return [
        Text("overall" if overall else f"{group.context_length:,}", style="bold" if overall else ""),
        Text(f"{n}{f' of {asked}' if n < asked else ''}/{contexts}"),
        Text(score_label(score)),
    ]


def _verdict_cell(row: Comparison, variant: VariantRun) -> Text:
    if row.verdict is None:
        return Text({"control": "(control)", "aa": "(A/A)"}[variant.role], style="dim")
    not_measured = row.difference.n == 0 and variant.status != "complete"
    return Text(variant.status if not_measured else row.verdict.word, style=STYLES[row.verdict.word])


def _notices(run: RunData, judgement: Judgement) -> Iterator[Text]:
    if run.manifest.status != "complete":
        yield Text(f"PARTIAL: this run is {run.manifest.status}; nothing below is final", style="bold yellow")
    for name, variant in run.manifest.variants.items():
        if variant.status != "complete":
            reason = f": {visible(variant.reason)}" if variant.reason else ""
            yield Text(f"{visible(name)} is {variant.status}{reason}", style="bold red")
    for problem in judgement.problems:
        if problem.is_void:
            yield not_judged(problem)


def _reasons(run: RunData, judgement: Judgement) -> Iterator[RenderableType]:
    for headline in headlines(judgement):
        answer = Text(visible(with_word(headline.word, headline.reason)))
        answer.highlight_regex(rf"\b{headline.word}\w*", STYLES[headline.word])
        yield Text.assemble((visible(headline.variant), "bold"), ": ", answer)
        for row in judgement.of(headline.variant, "length", "overall"):
            verdict, attribution = row.verdict, attribution_label(row)
            if verdict and verdict.word == "undecided" and row.difference.n and verdict.reason not in headline.reason:
                yield indented(f"{row.scope}: {verdict.reason}")
            if row.scope.level == "overall" and attribution:
                yield indented(attribution)
            if row.scope.level == "overall" and (other := other_evidence(row)):
                yield indented(f"points are of the {evidence_label(row)}; beside it: {other}")
        for finding in run.manifest.variants[headline.variant].findings:
            if finding.level != "info":
                yield indented(f"{finding.level}: {finding.message}", style="yellow")
