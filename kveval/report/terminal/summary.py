"""A run in the terminal: a table of scores, then the reason for each verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Endpoint, Kind
from kveval.judge.comparison.headline import headlines, listed
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.own_score import kinds_of, method_of, own_score, temperature_of
from kveval.judge.comparison.scope import Scope, scopes
from kveval.judge.comparison.verdict import points
from kveval.judge.divergence.of_run import divergences
from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import RunData, load_run
from kveval.report.endpoints import asked_of_baseline, attribution_labels, contradiction, parts_labels
from kveval.report.labels import (
    capacity_label,
    difference_label,
    flips_label,
    score_label,
    storage_label,
    with_word,
)
from kveval.report.overview import overview
from kveval.report.sections.speculation.section import speculating_variants
from kveval.report.terminal.evidence import cold_lines, divergence_lines, measure_lines, speculation_lines
from kveval.report.terminal.layout import STYLES, indented, not_judged, overview_lines
from kveval.report.text import visible
from kveval.run.manifest import VariantRun

_WIDTHS = (7, 18, 5, 22, 11)
# Wide enough for the names of scores, and still 80 columns in all.
_WIDTHS_WITH_NAMES = (11, 18, 5, 21, 11)
_NAMES: dict[Kind, str] = {
    "greedy": "greedy", "probability": "probability", "token_accuracy": "token acc.", "entries": "entries",
}  # fmt: skip


def summary_table(run_dir: Path, policy: Policy | None = None) -> RenderableType:
    """Shows a run in 80 columns."""
    run = load_run(run_dir)
    judgement = judge_run(run, policy)
    margin, confidence = points(judgement.policy.margin), judgement.policy.confidence
    first = overview(run, judgement)
    title = (
        f"{run.path.resolve().name}: {', '.join(first.measured)}; against {run.manifest.baseline}, "
        f"margin {margin} points"
    )
    header = _grid(_widths(run))
    headings = ("context", "questions/contexts", "score", f"difference [{confidence:.0%}]", "lost/gained", "verdict")
    header.add_row(*(Text(heading, style="bold underline") for heading in headings))
    parts: list[RenderableType] = [*_notices(run, judgement), Text(visible(title), style="bold")]
    parts += [*overview_lines(first), Text(), header]
    for variant in run.baseline_first:
        details = ", ".join(part for part in (storage_label(variant.facts), capacity_label(variant.facts)) if part)
        parts.append(Text.assemble((visible(variant.name), "bold"), "  ", (visible(details), "dim")))
        if variant.reuse is not None:
            parts.append(indented(variant.reuse.in_words(), style="dim"))
        parts.append(_scores(run, judgement, variant))
    parts += [Text(), *_names(run, judgement), *_reasons(run, judgement)]
    for one in speculating_variants(run, judgement):
        parts += speculation_lines(one)
    for check in cold_comparisons(run):
        parts += cold_lines(check)
    parts += divergence_lines(divergences(run))
    parts += measure_lines(run, judgement)
    said = [headline.sentence for headline in headlines(judgement)]
    if first.next_command and not any(first.next_command in sentence for sentence in said):
        parts.append(Text(f"{first.why}: {visible(first.next_command)}", style="bold"))
    return Stack(*parts)


def _grid(widths: tuple[int, ...] = _WIDTHS) -> Table:
    """Returns an empty table: one per variant, with the same widths, so that they align."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for width in widths:
        grid.add_column(justify="right", min_width=width, no_wrap=True)
    grid.add_column()
    return grid


def _scores(run: RunData, judgement: Judgement, variant: VariantRun) -> Table:
    grid = _grid(_widths(run))
    if variant.role == "baseline":
        for group in scopes(run.samples, "length", "overall"):
            for cells in _baseline_cells(run, judgement, group):
                grid.add_row(*cells)
        return grid
    compared = judgement.of(variant.name, "length", "overall")
    if not any(row.difference.n for row in compared):
        compared = compared[-1:]
    for row in compared:
        if row.expected:
            grid.add_row(_place(row.scope), *[Text()] * (len(_WIDTHS) - 1), Text())
        for one in (row.shown, *row.beside):
            grid.add_row(*_cells(row, one, variant))
    return grid


def _widths(run: RunData) -> tuple[int, ...]:
    return _WIDTHS if kinds_of(run) == ("greedy",) else _WIDTHS_WITH_NAMES


def _baseline_cells(run: RunData, judgement: Judgement, group: Scope) -> Iterator[list[Text]]:
    policy = judgement.policy
    found = {
        kind: own_score(
            run, run.manifest.baseline, group, confidence=policy.confidence, kind=kind, advisory=policy.advisory
        )
        for kind in kinds_of(run)
    }
    if len(found) > 1:
        yield [_place(group), *[Text()] * (len(_WIDTHS) - 1), Text("baseline", "dim")]
    for kind, score in found.items():
        named = Text(_NAMES[kind]) if len(found) > 1 else _place(group)
        asked = asked_of_baseline(run, judgement, group, kind, scored=score.n)
        if asked or kind == "greedy":
            numbers = _numbers(score.n, asked, score.clusters, score.mean)
            yield [named, *numbers, Text(), Text(), Text("" if len(found) > 1 else "baseline", "dim")]


def _cells(row: Comparison, one: Endpoint, variant: VariantRun) -> list[Text]:
    difference = one.difference
    name = f"{_NAMES[one.kind]}{' rest' if one is row.rest else ''}"
    return [
        Text(name) if row.expected else _place(row.scope),
        *_numbers(difference.n, one.asked, difference.clusters, one.candidate_score.mean),
        Text(difference_label(difference)),
        Text(flips_label(row.flips).replace(" ", "") if one is row.greedy else ""),
        _verdict_cell(row, variant) if one is row.shown else Text(),
    ]


def _place(group: Scope) -> Text:
    overall = group.context_length is None
    return Text("overall" if overall else f"{group.context_length:,}", style="bold" if overall else "")


def _numbers(n: int, asked: int, contexts: int, score: float | None) -> list[Text]:
    return [Text(f"{n}{f' of {asked}' if n < asked else ''}/{contexts}"), Text(score_label(score))]


def _verdict_cell(row: Comparison, variant: VariantRun) -> Text:
    if row.verdict is None:
        return Text({"control": "(control)", "aa": "(A/A)"}[variant.role], style="dim")
    not_measured = row.difference.n == 0 and variant.status != "complete"
    return Text(variant.status if not_measured else row.verdict.word, style=STYLES[row.verdict.word])


def _names(run: RunData, judgement: Judgement) -> Iterator[Text]:
    """Says what the names of scores mean. Yields nothing for a run of greedy answers."""
    units, temperature = kinds_of(run)[1:], temperature_of(run)
    if units:
        at = "" if temperature is None else f", at temperature {temperature:g}"
        at += ", read stepwise" if method_of(run) == "stepwise" else ""
        yield Text(f"{listed([_NAMES[unit] for unit in units])}: expected score{at}", style="dim")
        yield Text("greedy: the decoded answers, which lost/gained counts", style="dim")
        if any(row.rest for row in judgement.comparisons):
            yield Text("greedy rest: of the questions that have no expected score", style="dim")
        yield Text("The verdict stands beside the score that decides it.", style="dim")


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
        answer = Text(visible(with_word(headline.word, headline.sentence)))
        answer.highlight_regex(rf"\b{headline.word}\w*", STYLES[headline.word])
        yield Text.assemble((visible(headline.variant), "bold"), ": ", answer)
        for row in judgement.of(headline.variant, "length", "overall"):
            verdict = row.verdict
            if verdict and verdict.word == "undecided" and row.difference.n and verdict.reason not in headline.reason:
                yield indented(f"{row.scope}: {verdict.reason}")
            if said := contradiction(row):
                yield indented(f"warning: {said}", style="yellow")
            if row.scope.level == "overall":
                yield from (indented(label) for label in (*attribution_labels(row), *parts_labels(row)))
        for finding in run.manifest.variants[headline.variant].findings:
            if finding.level != "info":
                yield indented(f"{finding.level}: {finding.message}", style="yellow")
