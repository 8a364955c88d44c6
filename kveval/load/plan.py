"""From configuration to levels and launches of a load measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kveval.config.load import LoadConfig
from kveval.config.sweep import SweepConfig
from kveval.engines.installation import Installation
from kveval.engines.variants import ResolvedVariant
from kveval.measure.plan.plan import (
    Plan,
    check_flags,
    check_load_fits,
    flag_tokens,
    hash_models,
    plan_variants,
    windows,
)
from kveval.models.checkpoint import Model, read_model
from kveval.run.load_results import Level
from kveval.tasks.assembly.prompt import PromptFormat

# Room for what a server adds to a prompt, such as its beginning-of-sequence token.
_SLACK_TOKENS = 8


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Everything decided before an engine starts.

    Attributes:
        variants: baseline and candidates, and where asked for the baseline again. Controls are left out: their speed is
            that of the emulation.
        levels: in the order they are measured; the last may be the longest context.
        max_model_len: prompt plus output every server takes, in tokens.
    """

    config: SweepConfig
    load: LoadConfig
    installation: Installation
    models: dict[str, Model]
    prompt_format: PromptFormat
    variants: list[ResolvedVariant]
    levels: list[Level]
    max_model_len: int

    @property
    def inputs(self) -> dict[str, str]:
        """sha256 by model file."""
        return hash_models(self.models, self.models[self.config.baseline])


def make_load_plan(config: SweepConfig, installation: Installation) -> LoadPlan:
    """A load measurement of its own. Raises UsageError: one line naming the key, the value and what is allowed."""
    load = config.load or LoadConfig()
    check_flags(config)
    variants = _measured(plan_variants(config, installation), load)
    model = read_model(config.model)
    models = {
        variant.name: read_model(variant.config.model, f"variants.{variant.name}.model")
        if variant.config.model
        else model
        for variant in variants
    }
    longest = max([*load.prompt_lengths, *config.context_lengths]) + load.output_tokens + _SLACK_TOKENS
    for whose, window in windows(config, variants, models):
        check_load_fits(load, whose, window)
        longest = min(longest, window)
    longest = _served_tokens(config, variants, longest)
    prompt_format = PromptFormat.load(model.path, config.prompt_style, config.chat_template_kwargs)
    levels = list(_levels(load, longest, config.seed))
    return LoadPlan(config, load, installation, models, prompt_format, variants, levels, longest)


def load_plan_of(plan: Plan, load: LoadConfig) -> LoadPlan:
    """The load part of a sweep, on the servers that the sweep launches anyway."""
    variants = _measured(plan.variants, load)
    models = {variant.name: plan.models[variant.name] for variant in variants}
    longest = _served_tokens(plan.config, variants, plan.max_model_len)
    levels = list(_levels(load, longest, plan.config.seed))
    return LoadPlan(
        plan.config, load, plan.installation, models, plan.prompt_format, variants, levels, plan.max_model_len
    )


def _measured(variants: list[ResolvedVariant], load: LoadConfig) -> list[ResolvedVariant]:
    roles = ("baseline", "candidate", "aa") if load.aa else ("baseline", "candidate")
    return [variant for variant in variants if variant.role in roles]


def _served_tokens(config: SweepConfig, variants: list[ResolvedVariant], asked: int) -> int:
    """What every server takes: a configured max-model-len wins over what kveval would ask for."""
    return min(flag_tokens(config.engine.args | v.config.engine_args) or asked for v in variants)


def _levels(load: LoadConfig, max_model_len: int, seed: int) -> Iterator[Level]:
    lengths = [[length] for length in load.prompt_lengths]
    if load.mixed and len(load.prompt_lengths) > 1:
        lengths.append(sorted(load.prompt_lengths))
    of_every_level = {
        "output_tokens": load.output_tokens,
        "requests": load.requests,
        "warmup_requests": load.warmup_requests,
        "seed": seed,
    }
    for prompt_lengths in lengths:
        for concurrency in load.concurrency:
            enough = of_every_level | {"requests": max(load.requests, 2 * concurrency)}
            yield Level(kind="closed", concurrency=concurrency, prompt_lengths=prompt_lengths, **enough)
        for rate in load.request_rates:
            yield Level(kind="open", request_rate=rate, prompt_lengths=prompt_lengths, **of_every_level)
    if load.longest_context:
        longest = max_model_len - load.output_tokens - _SLACK_TOKENS
        alone = of_every_level | {"requests": 1, "warmup_requests": 0}
        yield Level(kind="longest", concurrency=1, prompt_lengths=[longest], **alone)


def describe_load(plan: LoadPlan) -> dict[str, Any]:
    """The plan as data: what ``kveval load --dry-run`` prints."""
    levels = [
        {
            "level": level.name,
            "requests": level.requests,
            "warmup_requests": level.warmup_requests,
            "prefill_tokens": _prefill_tokens(level),
            "output_tokens": (level.requests + level.warmup_requests) * level.output_tokens,
        }
        for level in plan.levels
    ]
    return {
        "device": plan.installation.device.kind,
        "variants": [
            {"name": v.name, "role": v.role, "kv_cache_dtype": v.kv_cache_dtype, "storage": v.storage}
            for v in plan.variants
        ],
        "levels": levels,
        "engine_launches": sum(variant.config.endpoint is None for variant in plan.variants),
        "requests": len(plan.variants) * sum(level.requests + level.warmup_requests for level in plan.levels),
        "prefill_tokens": len(plan.variants) * sum(_prefill_tokens(level) for level in plan.levels),
        "output_tokens": len(plan.variants)
        * sum((level.requests + level.warmup_requests) * level.output_tokens for level in plan.levels),
        "max_model_len": plan.max_model_len,
    }


def _prefill_tokens(level: Level) -> int:
    lengths = level.prompt_lengths
    each = [lengths[index % len(lengths)] for index in range(level.requests)]
    warmup = [lengths[index % len(lengths)] for index in range(level.warmup_requests)]
    return sum(each) + sum(warmup)
