"""What differs when nothing was changed, beside what differs for each variant."""

from __future__ import annotations

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report.section import Section


def noise_rows(run: RunData, judgement: Judgement) -> list[Comparison]:
    """Returns the comparisons of candidates and controls that an A/A run covers, by length and overall."""
    return [
        row
        for name, variant in run.manifest.variants.items()
        if variant.role in ("candidate", "control")
        for row in judgement.of(name, "length", "overall")
        if row.noise is not None
    ]


SECTION = Section("Noise and drift", 40, noise_rows)
