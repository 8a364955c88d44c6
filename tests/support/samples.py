"""Small samples without a task or a model."""

from __future__ import annotations

import numpy as np

from kveval.tasks.sample import Prompt, Sample


def sample(haystack: str, number: int, *, shared: int = 100, tail: int = 10, output: int = 8) -> Sample:
    """Makes one question of a haystack."""
    return Sample(
        sample_id=f"{haystack}-{number}",
        haystack_id=haystack,
        task="niah_single",
        family="needle",
        context_length=shared + tail,
        prompt=Prompt(np.zeros(shared, np.int32), np.zeros(tail, np.int32)),
        depth_percent=None,
        doc={},
        max_output_tokens=output,
    )
