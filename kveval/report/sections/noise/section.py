"""What differs when nothing was changed, beside what differs for each variant."""

from __future__ import annotations

from typing import Any

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report.rows import comparison_row
from kveval.report.section import Section


def noise_table(judgement: Judgement, run: RunData) -> list[dict[str, Any]]:
    """Flips and identical outputs of every candidate and control beside the A/A run's, by length and overall."""
    return [
        {"variant": name, **comparison_row(row)}
        for name, variant in run.manifest.variants.items()
        if variant.role in ("candidate", "control")
        for level in ("length", "overall")
        for row in judgement.of(name, level)
        if row.noise is not None
    ]


SECTION = Section("Noise and drift", 40, lambda run, judgement: noise_table(judgement, run))
