"""From a configuration to the levels and launches of a load measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kveval.config.load import LoadConfig
from kveval.config.sweep import SweepConfig
from kveval.engines.base import Installation
from kveval.engines.variants import ResolvedVariant
from kveval.measure.plan.limits import SPARE_TOKENS, check_load_fits
from kveval.measure.plan.plan import Plan
from kveval.measure.plan.prompts import check_same_prompts, read_prompt_format
from kveval.measure.plan.variants import max_model_len_flag, plan_variants
from kveval.models.checkpoint import Model
from kveval.run.load_results import Level
from kveval.run.manifest import Role
from kveval.tasks.assembly.prompt import PromptFormat


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Everything decided before an engine starts.

    Attributes:
        variants: baseline and candidates, and if the configuration asks for it the baseline again. Controls are left
            out: their speed is the speed of the emulation.
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


def make_load_plan(config: SweepConfig, installation: Installation) -> LoadPlan:
    """Plans a load measurement without a sweep."""
    # Nothing is forced here, and a processor inside the engine would cost it time.
    config = config.model_copy(update={"requests": config.requests.model_copy(update={"forced_decode": False})})
    load = config.load or LoadConfig()
    variants = plan_variants(config, installation).with_roles(_roles(load))
    variants.check_launches()
    check_load_fits(load, variants.limits)
    prompt_format = read_prompt_format(config, variants.model.path)
    check_same_prompts(variants, prompt_format)
    longest = max([*load.prompt_lengths, *config.context_lengths]) + load.output_tokens + SPARE_TOKENS
    longest = min([longest, *(limit.tokens for limit in variants.limits)])
    longest = _served_tokens(config, variants.variants, longest)
    levels = list(_levels(load, longest, config.seed))
    return LoadPlan(config, load, installation, variants.models, prompt_format, variants.variants, levels, longest)


def load_plan_of(plan: Plan, load: LoadConfig) -> LoadPlan:
    """Plans the load part of a sweep, on the servers that the sweep launches anyway."""
    variants = [variant for variant in plan.variants if variant.role in _roles(load)]
    models = {variant.name: plan.models[variant.name] for variant in variants}
    longest = _served_tokens(plan.config, variants, plan.max_model_len)
    levels = list(_levels(load, longest, plan.config.seed))
    return LoadPlan(
        plan.config, load, plan.installation, models, plan.prompt_format, variants, levels, plan.max_model_len
    )


def _roles(load: LoadConfig) -> tuple[Role, ...]:
    return ("baseline", "candidate", "aa") if load.aa else ("baseline", "candidate")


def _served_tokens(config: SweepConfig, variants: Iterable[ResolvedVariant], planned: int) -> int:
    """Returns what every server takes: a configured max-model-len wins over what kveval would ask for."""
    return min(max_model_len_flag(config, variant.config) or planned for variant in variants)


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
        longest = max_model_len - load.output_tokens - SPARE_TOKENS
        alone = of_every_level | {"requests": 1, "warmup_requests": 0}
        yield Level(kind="longest", concurrency=1, prompt_lengths=[longest], **alone)


def describe_load(plan: LoadPlan) -> dict[str, Any]:
    """Returns the plan as data for JSON: what ``kveval load --dry-run`` prints."""
    levels: list[dict[str, Any]] = [
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
        "prefill_tokens": len(plan.variants) * sum(level["prefill_tokens"] for level in levels),
        "output_tokens": len(plan.variants) * sum(level["output_tokens"] for level in levels),
        "max_model_len": plan.max_model_len,
    }


def _prefill_tokens(level: Level) -> int:
    lengths = level.prompt_lengths
    each = [lengths[index % len(lengths)] for index in range(level.requests)]
    warmup = [lengths[index % len(lengths)] for index in range(level.warmup_requests)]
    return sum(each) + sum(warmup)
