"""The endpoint of a variant as an engine of a sweep."""

from __future__ import annotations

from pathlib import Path

from kveval.config.endpoint import EndpointConfig
from kveval.engines.openai.engine import EndpointEngine
from kveval.engines.variants import ResolvedVariant
from kveval.measure.plan.launchable import Launchable

_PROBE = "The harbour was quiet in the early morning."


def attach(plan: Launchable, variant: ResolvedVariant, endpoint: EndpointConfig, log_path: Path) -> EndpointEngine:
    """Raises ConfigError: the variable that holds the key is not set."""
    prompt_format = plan.prompt_format
    text = prompt_format.encode(_PROBE)
    return EndpointEngine(
        variant,
        endpoint,
        prompt=[int(token) for part in (prompt_format.prefix_ids, text, prompt_format.suffix_ids) for token in part],
        has_bos=prompt_format.begins_with_bos,
        spell=prompt_format.spell,
        max_model_len=plan.max_model_len,
        logprobs=plan.config.requests.logprobs,
        log_path=log_path,
    )
