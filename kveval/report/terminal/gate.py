"""The gate's decision in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.judge.comparison.comparison import Comparison, at_levels
from kveval.judge.gate.check import Check
from kveval.judge.gate.gate import Gate
from kveval.judge.gate.rules import quantization
from kveval.report.endpoints import attribution_labels, beside_labels, contradiction, parts_labels, shown_label
from kveval.report.labels import difference_label, emulated_suffix, row_word, storage_label
from kveval.report.overview import measured
from kveval.report.terminal.layout import STYLES, indented
from kveval.report.text import visible

_MOST_CELLS = 8


def gate_table(gate: Gate) -> RenderableType:
    """Shows the verdict, every check with its reason, the worst cells of those that do not pass, and the notes."""
    verdict = Text.assemble("gate: ", (gate.state, STYLES[gate.state]), f", exit code {gate.exit_code}")
    if gate.state == "undecided" and gate.exit_code == 0:
        verdict.append(" (the policy allows undecided)")
    parts = [
        verdict,
        Text(visible(f"{gate.run.path.resolve().name}: {', '.join(measured(gate.run))}"), style="dim"),
        *(line for check in gate.checks for line in _check(gate, check)),
    ]
    cells = [
        (check, row)
        for check in gate.checks
        if check.state != "pass"
        for row in at_levels(check.comparisons, "cell")
        if (row.difference.delta or 0.0) < 0
    ]
    worst = sorted(cells, key=lambda cell: cell[1].difference.delta or 0.0)[:_MOST_CELLS]
    if worst:
        parts += [Text("\nworst cells", style="bold"), _cells(gate, worst)]
    parts += [Text(f"{note.level}: {visible(note.message)}", style="yellow") for note in gate.notes]
    return Stack(*parts)


def _check(gate: Gate, check: Check) -> Iterator[RenderableType]:
    variant = gate.run.manifest.variants.get(check.variant)
    label = storage_label(variant.facts) if variant else ""
    saving = ", no memory saved" if variant and variant.facts.is_emulated else ""
    overall = check.overall
    yield Text.assemble(
        (f"{check.state:<15}", STYLES[check.state]),
        (visible(check.variant), "bold"),
        (f"  {visible(label)}{saving}" if label else "", "dim"),
    )
    against = _against(check)
    kind = f", {shown_label(overall)}" if overall and overall.expected else ""
    delta = f"{kind}, {difference_label(overall.difference)} points" if overall and overall.difference.n else ""
    yield indented(f"{against}{delta}: {check.reason}", left=15)
    if overall and (said := contradiction(overall)):
        yield indented(f"warning: {said}", left=15, style="yellow")
    for label in beside_labels(overall) if overall else []:
        yield indented(f"beside it: {label}", left=15)
    for number, label in enumerate(attribution_labels(overall) if overall else []):
        cause = overall.attribution.blames() if overall and overall.attribution and number == 0 else None
        yield indented(label + (f"; the loss comes from {_CAUSES[cause]}" if cause else ""), left=15)
    yield from (indented(label, left=15) for label in (parts_labels(overall) if overall else ()))


def _against(check: Check) -> str:
    if check.against is None:
        return check.kind
    return f"vs tonight's {check.against}" if check.kind == quantization.KIND else f"vs approved {check.against}"


_CAUSES = {"format": "the format", "kernel": "the kernel", "both": "both"}


def _cells(gate: Gate, cells: list[tuple[Check, Comparison]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for check, row in cells:
        table.add_row(
            Text(row_word(row)),
            Text(visible(check.variant) + emulated_suffix(gate.run, check.variant)),
            Text(visible(str(row.scope))),
            Text(difference_label(row.difference)),
            Text(shown_label(row) or ""),
            Text(f"{row.flips.lost}/{row.flips.gained}"),
        )
    return table
