from __future__ import annotations

import sys
from pathlib import Path

# `make_run` writes the synthetic runs of the judge's tests too.
sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))
