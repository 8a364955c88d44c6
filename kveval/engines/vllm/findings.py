"""What a reviewer must know about a vLLM server that kveval launched."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.engines.base import auto_finding, cache_findings, changed_findings
from kveval.engines.variants import ResolvedVariant
from kveval.formats.backends import is_stored_as
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES, is_model_dtype, is_same_format, is_unquantized
from kveval.memory.measured import gains_too_little
from kveval.run.facts import Facts, Finding

_CAPACITY_TOLERANCE = 0.1


def judge_facts(
    facts: Facts,
    variant: ResolvedVariant,
    baseline: Facts | None,
    checkpoint_dtype: str | None = None,
    expected_ratio: float | None = None,
) -> list[Finding]:
    """Returns what a reviewer must know. An error means that the variant must not be measured.

    Args:
        checkpoint_dtype: the cache dtype that vLLM makes of auto for this checkpoint. None if it makes none.
        expected_ratio: how many times the baseline's tokens the cache of this model should hold. None if kveval cannot
            tell.
    """
    return [
        *_dtype_findings(facts, variant, checkpoint_dtype),
        *_emulation_findings(facts),
        *(_compared_findings(facts, variant, baseline, expected_ratio) if baseline is not None else ()),
        *cache_findings(facts, variant),
        *_speculation_findings(facts, variant),
    ]


def _dtype_findings(facts: Facts, variant: ResolvedVariant, checkpoint_dtype: str | None) -> Iterator[Finding]:
    requested, effective = variant.kv_cache_dtype, facts.effective_cache_dtype
    if requested == effective == "auto" and checkpoint_dtype is not None:
        yield auto_finding(checkpoint_dtype)
        effective = checkpoint_dtype
    stored = effective or requested
    if not variant.is_natively_quantized and requested != variant.config.kv_cache_dtype and variant.role == "baseline":
        own = facts.model_dtype or requested
        yield Finding.info("follows_model_dtype", f"the model computes in {own}, so the cache of {variant.name} is too")
    if effective is not None and is_model_dtype(effective) and facts.model_dtype not in (None, effective):
        message = (
            f"the cache is {effective} and the model computes in {facts.model_dtype}: vLLM reads the bits of K and V "
            f"as other numbers; use: kv_cache_dtype {facts.model_dtype}"
        )
        yield Finding.error("dtype_not_the_models", message)
    if effective is None:
        message = f"the server does not report its cache dtype; {requested} was asked for"
        yield Finding.warning("dtype_unknown", message)
    elif not is_same_format(requested, effective) and requested != "auto":
        yield _other_dtype(requested, effective, facts.model_dtype)
    if stored not in CACHE_DTYPES:
        yield Finding.warning("unknown_format", _unknown_format(stored, facts.kv_capacity_ratio))
    if facts.device == "cpu" and stored not in CPU_DTYPES:
        yield Finding.error("cpu_unsupported", f"the CPU engine corrupts a cache of {stored}")
    if variant.role == "baseline" and effective is not None and not is_unquantized(effective):
        message = f"the baseline's cache is {effective}: there is nothing to compare with"
        yield Finding.error("baseline_quantized", message)


def _other_dtype(requested: str, effective: str, model_dtype: str | None) -> Finding:
    """Reports a cache that has another dtype than was asked for. Some models rename it, and store the same."""
    if not is_unquantized(requested) and is_stored_as(requested, effective):
        message = f"{requested} was asked for, and vLLM stores it as {effective} for this model"
        return Finding.info("dtype_stored_as", message)
    if effective == "auto" and is_model_dtype(requested) and model_dtype in (None, requested):
        message = f"the model turns {requested} into auto, its own dtype, which is {model_dtype or 'not known'}"
        return (Finding.warning if model_dtype is None else Finding.info)("dtype_auto", message)
    return Finding.error("dtype_mismatch", f"{requested} was asked for, the server stores {effective}")


def _unknown_format(dtype: str, capacity_ratio: float | None) -> str:
    holds = "" if capacity_ratio is None else f"; it holds {capacity_ratio:.2f} times the baseline's tokens"
    return (
        f"kveval does not know the cache dtype {dtype}: how its scales are set and how many tokens its cache should "
        f"hold are not checked{holds}"
    )


def _emulation_findings(facts: Facts) -> Iterator[Finding]:
    if facts.storage != "emulated":
        return
    message = f"{facts.emulation}: the numerics of the format, stored as {facts.effective_cache_dtype}; saves no memory"
    yield Finding.info("emulated", message)
    if not facts.emulation_live:
        message = "the engine log does not show K and V being rounded: the plugin is not live"
        yield Finding.error("emulation_dead", message)
    elif facts.rounded_layers is None or facts.unrounded_layers is None:
        message = "the engine log does not say which layers were rounded: some may not be"
        yield Finding.error("emulation_partial", message)
    elif facts.unrounded_layers:
        layers = " ".join(map(str, facts.unrounded_layers))
        message = (
            f"{facts.rounded_layers} layers were rounded, and layers {layers} were not: they have no K and V, or their "
            "attention backend is none that kveval emulates in; to round only some layers, use: emulate.layers"
        )
        yield Finding.error("emulation_partial", message)


def _compared_findings(
    facts: Facts, variant: ResolvedVariant, baseline: Facts, expected_ratio: float | None
) -> Iterator[Finding]:
    ratio, expected = facts.kv_capacity_ratio, expected_ratio or variant.expected_capacity_ratio
    if variant.is_natively_quantized and expected is not None and ratio is not None:
        holds = f"the cache holds {ratio:.2f} times the baseline's tokens"
        if gains_too_little(ratio, expected):
            yield Finding.error(
                "capacity_unchanged",
                f"{holds}: a native {variant.kv_cache_dtype} cache holds about {expected:.2f} times as many",
            )
        elif expected_ratio is not None and abs(ratio / expected_ratio - 1) > _CAPACITY_TOLERANCE:
            yield Finding.warning(
                "capacity_unexpected",
                f"{holds}, {expected_ratio:.2f} times as many were expected: another memory for the cache, or layers "
                "that are stored otherwise",
            )
    keys = ("attention_backend", "engine_version", "execution", "model_dtype", "max_model_len")
    yield from changed_findings(facts, baseline, keys)


def _speculation_findings(facts: Facts, variant: ResolvedVariant) -> Iterator[Finding]:
    wanted, tokens, method = variant.config.speculative_config, facts.speculative_tokens, facts.speculative_method
    if wanted is None:
        if tokens:
            message = f"the server speculates ({tokens} tokens a draft), which was not asked for"
            yield Finding.error("speculation_unasked", message)
        return
    asked, count = str(wanted["method"]), wanted.get("num_speculative_tokens")
    if not tokens:
        message = f"speculative decoding ({asked}) was asked for, the server does not speculate"
        yield Finding.error("speculation_off", message)
        return
    # vLLM renames the methods of single models (qwen3_next_mtp) to mtp.
    is_same = method in (None, asked) or (asked.endswith("mtp") and method == "mtp")
    if not is_same or count not in (None, tokens):
        message = (
            f"speculative decoding {asked} with {count or 'its own number of'} tokens was asked for, the server runs "
            f"{method or asked} with {tokens}"
        )
        yield Finding.error("speculation_other", message)
