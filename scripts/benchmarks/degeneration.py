"""Measures how often texts that are in order are taken for degenerate outputs, and damaged ones are not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.corpora.documents import hotpotqa
from kveval.tasks.loader import load_tasks
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.wording.degeneration import degeneration
from kveval.tasks.task import Cell
from kveval.tasks.task_files import list_tasks

_CONTEXT_LENGTH, _SAMPLES, _QUESTIONS = 8192, 50, 5
_PARAGRAPHS = 5000
_OUTPUT_WORDS = 60


def measure() -> dict[str, Any]:
    """Right answers, with their question; paragraphs of Wikipedia, without one; and what is made of answers."""
    samples = _samples()
    right = [(answer_of(sample), str(sample.doc.get("question", ""))) for sample in samples]
    paragraphs = [(document.text, "") for document in hotpotqa().documents[:_PARAGRAPHS]]
    rng = random.Random(0)  # noqa: S311
    loops = [(_looped(text, rng), "") for text, _ in paragraphs[:500]]
    return {
        "right_answers": _shares(right),
        "right_long_lists": _shares([one for one in right if len(one[0].split()) >= _OUTPUT_WORDS]),
        "paragraphs": _shares(paragraphs),
        "looped_paragraphs": _shares(loops),
    }


def answer_of(sample: Sample) -> str:
    """Returns a right answer as text: the references, in one list where there are several."""
    return "\n".join(sample.doc["answers"])


def _samples() -> list[Sample]:
    stand_in = PromptFormat.stand_in()
    found: list[Sample] = []
    for name, task in load_tasks([info.name for info in list_tasks()]).items():
        cell = Cell(name, _CONTEXT_LENGTH, _SAMPLES, _QUESTIONS, 0, "generated")
        found += build_samples(task, cell, stand_in)
    return found


def _looped(text: str, rng: random.Random) -> str:
    """Returns the beginning of a text that falls into repeating its last words."""
    words = text.split()[:_OUTPUT_WORDS]
    return " ".join(words + words[-rng.randint(1, 8) :] * 8)


def _shares(texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    kinds = Counter(degeneration(text, question) or "none" for text, question in texts)
    return {"texts": kinds.total(), **{kind: round(count / kinds.total(), 5) for kind, count in kinds.items()}}
