"""What a run directory keeps of each sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from kveval.run.storage import Stored


class SampleRow(Stored):
    """Everything about a sample except its prompt, which is rebuilt from the manifest's configuration."""

    sample_id: str
    haystack_id: str
    task: str
    family: str
    context_length: int
    prompt_tokens: int
    prompt_sha256: str
    first_token_ids: list[int]
    depth_percent: float | None
    max_output_tokens: int
    stop: list[str]
    doc: dict[str, Any]


def ids_sha256(ids: Iterable[str]) -> str:
    """Returns sha256 over the sorted ids. Two runs with the same value asked the same samples."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
