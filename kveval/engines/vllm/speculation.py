"""Speculative decoding of vLLM: what the server says of it, and whether that is what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from prometheus_client import Metric

from kveval.engines.metrics import speculation_counters
from kveval.engines.variants import ResolvedVariant
from kveval.run.findings import Finding


def speculation_facts(families: Iterable[Metric], log: str) -> dict[str, Any]:
    """Returns ``speculative_tokens`` and ``speculative_method``. Empty if the server does not speculate."""
    # A speculating server has these counters from the start, at 0. Other servers never have them.
    tokens = sum(name.startswith("spec_accepted_at_") for name in speculation_counters(families))
    if not tokens:
        return {}
    method = re.search(r"speculative_config=SpeculativeConfig\(method='(\w+)'", log)
    return {"speculative_tokens": tokens, "speculative_method": method[1] if method else None}


def judge_speculation(variant: ResolvedVariant, tokens: int | None, method: str | None) -> list[Finding]:
    """Checks that the server speculates as `variant` asks. `tokens`, `method`: what `speculation_facts` returned."""
    wanted = variant.config.speculative_config
    if wanted is None:
        if not tokens:
            return []
        message = f"the server speculates ({tokens} tokens a draft), which was not asked for"
        return [Finding(level="error", code="speculation_unasked", message=message)]
    asked = str(wanted["method"])
    if not tokens:
        message = f"speculative decoding ({asked}) was asked for, the server does not speculate"
        return [Finding(level="error", code="speculation_off", message=message)]
    # vLLM renames the methods of single models (qwen3_next_mtp) to mtp.
    same = method in (None, asked) or (asked.endswith("mtp") and method == "mtp")
    count = wanted.get("num_speculative_tokens")
    if not same or count not in (None, tokens):
        message = (
            f"speculative decoding {asked} with {count or 'its own number of'} tokens was asked for, the server runs "
            f"{method or asked} with {tokens}"
        )
        return [Finding(level="error", code="speculation_other", message=message)]
    return []
