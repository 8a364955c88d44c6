"""What a plan can show, in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.judge.prediction.prediction import Prediction
from kveval.report.labels import length_label


def prediction_lines(prediction: Prediction) -> Iterator[RenderableType]:
    """Shows for each row what it can pass and detect, then where the variances come from, and the warnings."""
    losses = next((row.questions_for for row in prediction.rows), {})
    table = Table(title="what this plan can show", title_justify="left")
    for column in ("context", "score"):
        table.add_column(column)
    for column in ("questions", "contexts", "margin", "pass", "loss", "needed"):
        table.add_column(column, justify="right")
    for row in prediction.rows:
        table.add_row(
            length_label(row.context_length),
            row.evidence.replace("_", " "),
            f"{row.questions:,}",
            f"{row.contexts:,}",
            f"{100 * row.margin:g}",
            f"{row.chance_to_pass:.0%}" if row.can_pass else "cannot",
            "" if row.detectable_loss is None else f"{100 * row.detectable_loss:.1f}",
            " / ".join("-" if needed is None else f"{needed:,}" for needed in row.questions_for.values()),
        )
    yield table
    yield Text(
        "pass: the chance to pass if nothing is lost. loss: the smallest loss in points that is shown to exceed the "
        f"margin with a chance of 80%. needed: questions that exclude a loss of {_listed(losses)} points with 80%.",
        style="dim",
    )
    yield from (Text(f"variance of {source}", style="dim") for source in prediction.variances)
    yield from (Text(f"warning: {warning}", style="yellow") for warning in prediction.warnings)


def _listed(losses: Iterable[str]) -> str:
    return " / ".join(f"{100 * float(loss):g}" for loss in losses)
