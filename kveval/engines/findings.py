"""Findings that facts lead to on any engine. Each engine adds its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts
from kveval.run.findings import Finding


def cache_findings(facts: Facts, variant: ResolvedVariant) -> Iterator[Finding]:
    """Says what the cache does otherwise than a reader of its dtype would think."""
    if facts.scales == "1.0" and variant.role == "candidate":
        yield Finding.warning("scales_1", "K and V scales are all 1.0: the checkpoint has no calibrated scales")
    if facts.skip_layers not in (None, "", "[]"):
        yield Finding.warning("skip_layers", f"layers left unquantized: {facts.skip_layers}")
    if facts.prefix_caching is False:
        yield Finding.warning("no_prefix_caching", "prefix caching is off: every question pays its own prefill")


def changed_findings(facts: Facts, baseline: Facts, keys: Iterable[str]) -> Iterator[Finding]:
    """Says which of the facts `keys` are not the baseline's: they changed together with the format."""
    for key in keys:
        ours, theirs = getattr(facts, key), getattr(baseline, key)
        if ours != theirs:
            code = "other_backend" if key == "attention_backend" else f"other_{key}"
            message = f"{key} {ours}, the baseline's is {theirs}: it changed together with the format"
            yield Finding.warning(code, message)
