"""Answers to the shipped tasks by who knows everything, nothing, or only what was planted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kveval.tasks.sample import Sample

NO_CALL = "None of these functions can do that."
BLIND = ("", "not stated", NO_CALL, "yes", "no", "42", "1234567", "I cannot help with that.")
"""What can be said without a look at question or context."""


def oracle(sample: Sample) -> str:
    """Returns the right answer."""
    doc = sample.doc
    if sample.family == "tool_calls":
        return str(doc["answers"][0]) if doc["expected"] else NO_CALL
    if doc["absent"]:
        return "not stated"
    if sample.task == "qa_cited":
        return f"{doc['answers'][0]} [{', '.join(doc['document_ids'])}]"
    return written(sample, values(sample))


def values(sample: Sample) -> list[str]:
    """Returns what has to be named."""
    if sample.family == "coverage":
        return _decisions(sample.doc["decisions"])
    if sample.family == "multidoc_qa":
        return list(sample.doc["answers"][:1])
    return list(sample.doc["answers"])


def planted(haystack: Sequence[Sample]) -> list[str]:
    """Returns what the questions of a haystack ask for, and what stands beside it to confuse."""
    found: dict[str, None] = {}
    for sample in haystack:
        found |= dict.fromkeys(values(sample))
        is_coverage = sample.family == "coverage"
        found |= dict.fromkeys(_decisions(sample.doc["other_decisions"]) if is_coverage else sample.doc["distractors"])
    return list(found)


def written(sample: Sample, named: Iterable[str]) -> str:
    """Writes values as an answer to this sample would."""
    return ("\n" if sample.family in ("coverage", "long_decode", "reasoning") else ", ").join(named)


def _decisions(decisions: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"{one['name']}: {one['amount']} euros" for one in decisions]
