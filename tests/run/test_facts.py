from __future__ import annotations

from kveval.run.facts import Facts, Finding


def test_each_level_has_a_constructor() -> None:
    made = [Finding.info("a", "b"), Finding.warning("a", "b"), Finding.error("a", "b")]
    assert made == [Finding(level=level, code="a", message="b") for level in ("info", "warning", "error")]


def test_what_makes_an_engine_the_same_engine() -> None:
    running = Facts(engine_version="0.32.0", effective_cache_dtype="fp8", attention_backend="CPU_ATTN")
    changed = running.model_copy(update={"startup_seconds": 1.0, "kv_capacity_tokens": 1, "kv_capacity_ratio": 2.0})
    assert running.identity() == changed.identity()
    assert running.identity() != running.model_copy(update={"engine_version": "0.33.0"}).identity()
