from __future__ import annotations

from kveval.run.facts import Finding


def test_each_level_has_a_constructor() -> None:
    made = [Finding.info("a", "b"), Finding.warning("a", "b"), Finding.error("a", "b")]
    assert made == [Finding(level=level, code="a", message="b") for level in ("info", "warning", "error")]
