"""What every variant answered to one sample, as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from kveval.run.records import Record, SampleRow


def answers_text(row: SampleRow, records: Mapping[str, Record]) -> str:
    """Returns the right answers, and of every variant the outcome, the scores and the whole output."""
    depth = "" if row.depth_percent is None else f", at {row.depth_percent:g}% of the context"
    parts = [f"sample {row.sample_id}: {row.task}, {row.context_length:,} tokens{depth}"]
    answers = [str(answer) for answer in row.doc.get("answers", ()) if answer is not None]
    if answers:
        parts.append(f"right answer: {' or '.join(answers)}")
    parts += [f"{name}: {_told(record)}\n{_indented(record.output)}" for name, record in records.items()]
    return "\n\n".join(parts) + "\n"


def _told(record: Record) -> str:
    expected = "" if record.expected is None else f", expected score {record.expected.score:.3f}"
    return f"{record.outcome}, score {record.score:.3f}{expected}"


def _indented(output: str) -> str:
    return textwrap.indent(output or "(no output)", "    ")
