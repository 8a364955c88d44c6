"""Which answers turn right or wrong when the baseline is asked twice."""

from __future__ import annotations

import pandas as pd

from kveval.judge.run_data import RunData


def aa_flips(run: RunData) -> pd.Series | None:
    """Tells for each sample, by id, whether it flips between the two runs of the baseline. None without an A/A run."""
    if run.aa is None:
        return None
    first, second = run.records[run.manifest.baseline]["outcome"], run.records[run.aa.name]["outcome"]
    both = first.index.intersection(second.index)
    first, second = first[both], second[both]
    answered = (first != "engine_error") & (second != "engine_error")
    return ((first == "correct") != (second == "correct"))[answered]
