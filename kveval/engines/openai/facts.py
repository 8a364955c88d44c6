"""What a server that kveval did not launch reveals of itself, what is only declared, and what follows from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from kveval.config.endpoint import EndpointConfig
from kveval.engines.client.dialect import Dialect
from kveval.engines.metrics import cache_config
from kveval.engines.variants import LEAST_CAPACITY_RATIO, ResolvedVariant
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES, is_same_format, is_unquantized
from kveval.run.facts import Facts
from kveval.run.findings import Finding

_LACKING: dict[str, tuple[Literal["info", "warning"], str]] = {
    "token_ids": ("warning", "takes no token ids: prompts are sent as text, and its own count of every prompt is "
                  "compared with the count of the model's tokenizer"),
    "usage": ("warning", "does not count prompt tokens: that nothing is cut from a prompt or added to it is not "
              "established"),
    "streams": ("warning", "sends no event stream: there is no time to first token"),
    "streamed_usage": ("warning", "counts prompt tokens of whole answers only: none is streamed, so there is no time "
                       "to first token"),
    "logprobs": ("warning", "gives no logprobs: drift is not measured"),
    "logprobs_by_id": ("info", "names tokens by their text in logprobs: those that share a text are left out of drift"),
    "perplexity": ("warning", "gives no logprobs of a text: that it reads plain English is not checked beforehand"),
    "metrics": ("info", "has no /metrics of vLLM's: its own counters are not recorded"),
    "cache_salt": ("info", "takes no cache_salt: nothing can be asked past its prefix cache"),
}  # fmt: skip


def attached_facts(
    variant: ResolvedVariant,
    endpoint: EndpointConfig,
    dialect: Dialect,
    *,
    version: str | None,
    metrics_text: str,
    served: Mapping[str, Any],
    answers_as: str | None,
) -> Facts:
    """What the server says wins over what is declared; what only the configuration says is listed in `declared`.

    Args:
        version: the body of /version, None without one.
        metrics_text: of /metrics; only vLLM's names its cache.
        served: the model's entry in /v1/models; `answers_as`: its name in answers.
    """
    cache = cache_config(metrics_text)
    established: dict[str, Any] = {
        "engine_version": _version(version, is_vllm=bool(cache)),
        "effective_cache_dtype": cache.get("cache_dtype"),
        "kv_capacity_tokens": _number(cache.get("kv_cache_size_tokens")),
        "prefix_caching": {"True": True, "False": False}.get(cache.get("enable_prefix_caching", "")),
        "max_model_len": served.get("max_model_len"),
    }
    said = endpoint.declared.model_dump(exclude_none=True)
    if variant.kv_cache_dtype != "auto":
        said["effective_cache_dtype"] = variant.kv_cache_dtype
    # The checkpoint decides whether auto is a quantized cache, and which scales a cache with one per tensor has.
    reported = CACHE_DTYPES.get(cache.get("cache_dtype", ""))
    if reported is not None and reported.name != "auto" and reported.scaling != "per_tensor":
        established["scales"] = reported.scaling
    if variant.kv_cache_dtype != "auto" and is_unquantized(variant.kv_cache_dtype):
        said["scales"] = "none"
    known = {key: value for key, value in established.items() if value is not None}
    declared = {key: value for key, value in said.items() if key not in known}
    lacks = [*dialect.lacks(), *([] if cache else ["metrics"])]
    return Facts(
        requested_cache_dtype=variant.kv_cache_dtype,
        storage="native",
        block_size=_number(cache.get("block_size")),
        skip_layers=cache.get("kv_cache_dtype_skip_layers"),
        endpoint=endpoint.url,
        served_model=json.dumps(served, sort_keys=True),
        answers_as=answers_as,
        prompt_form=dialect.prompt,
        added_prompt_tokens=dialect.added_tokens,
        lacks=sorted(lacks),
        declared=sorted(declared),
        **known,
        **declared,
    )


def _version(body: str | None, *, is_vllm: bool) -> str | None:
    try:
        version = json.loads(body or "null")
    except ValueError:
        return None
    version = version.get("version") if isinstance(version, Mapping) else version
    if not isinstance(version, str) or not version:
        return None
    return f"vLLM {version}" if is_vllm else version


def _number(text: str | None) -> int | None:
    return int(float(text)) if text and re.fullmatch(r"\d+(\.\d+)?", text) else None


def judge_attached(facts: Facts, variant: ResolvedVariant, baseline: Facts | None) -> list[Finding]:
    """As `judge_facts`, of a server that kveval did not launch.

    What is declared proves nothing and contradicts nothing: no error follows from it, and that it was not established
    is a warning. Two servers may have different memory, so an unchanged capacity is a warning too.
    """
    return [
        Finding(level=level, code=code, message=message)
        for level, code, message in (
            *_of_cache(facts, variant),
            *_of_asking(facts, variant),
            *(_compared(facts, variant, baseline) if baseline is not None else ()),
        )
    ]


_Found = tuple[Literal["info", "warning", "error"], str, str]


def _of_cache(facts: Facts, variant: ResolvedVariant) -> Iterator[_Found]:
    requested, effective = variant.kv_cache_dtype, facts.effective_cache_dtype
    if facts.declared:
        said = ", ".join(f"{key} {getattr(facts, key)}" for key in facts.declared)
        yield "warning", "declared", f"declared in the configuration, not established from the server: {said}"
    if effective is None:
        yield "warning", "dtype_unknown", "the server does not say what its cache stores, and nothing is declared"
    elif "effective_cache_dtype" not in facts.declared:
        if effective == "auto" and is_unquantized(requested):
            if requested != "auto":
                yield (
                    "warning", "dtype_auto",
                    f"the server's cache dtype is auto, the model's own, which it does not name; {requested} is "
                    "declared",
                )  # fmt: skip
        elif not is_same_format(requested, effective) and requested != "auto":
            yield (
                "error",
                "dtype_mismatch",
                f"{requested} is what the configuration says, the server stores {effective}",
            )
        if variant.role in ("baseline", "aa") and not is_unquantized(effective):
            yield (
                "error", "baseline_quantized",
                f"the baseline's cache is {effective}: there is nothing to compare with",
            )  # fmt: skip
        if facts.device is None and effective not in CPU_DTYPES and not is_unquantized(effective):
            yield (
                "warning", "device_unknown",
                f"{effective} is none of what vLLM's CPU engine stores correctly ({', '.join(CPU_DTYPES[1:])}), and "
                "the server does not say what it runs on",
            )  # fmt: skip
    unknown = [
        key for key in ("engine_version", "attention_backend", "kv_capacity_tokens") if getattr(facts, key) is None
    ]
    if variant.is_natively_quantized and facts.scales == "unknown":
        unknown.append("scales")
    if unknown:
        yield (
            "warning", "unknown",
            f"neither said by the server nor declared: {', '.join(unknown)}; what would follow is not checked",
        )  # fmt: skip
    if facts.scales == "1.0" and variant.role == "candidate":
        yield "warning", "scales_1", "K and V scales are all 1.0: the checkpoint has no calibrated scales"
    if facts.skip_layers not in (None, "", "[]"):
        yield "warning", "skip_layers", f"layers left unquantized: {facts.skip_layers}"
    if facts.prefix_caching is False:
        yield "warning", "no_prefix_caching", "prefix caching is off: every question pays its own prefill"


def _of_asking(facts: Facts, variant: ResolvedVariant) -> Iterator[_Found]:
    for name in facts.lacks:
        if name in _LACKING:
            level, message = _LACKING[name]
            yield level, f"no_{name}", f"the server {message}"
    if facts.prompt_form == "text_without_bos":
        yield (
            "info", "bos_added",
            "the server puts a beginning-of-sequence token in front of every text: ours is left out, so that it stands "
            "there once",
        )  # fmt: skip
    if facts.added_prompt_tokens:
        off = facts.added_prompt_tokens
        likely = ": a second beginning-of-sequence token, most likely" if off == 1 else ""
        yield (
            "error", "prompt_changed",
            f"the server counts {abs(off)} {'more' if off > 0 else 'fewer'} tokens in a prompt than the model's "
            f"tokenizer{likely}",
        )  # fmt: skip
    endpoint = variant.config.endpoint
    chat = "none" if endpoint is None else endpoint.chat
    if chat != "none" and "chat" in facts.lacks:
        yield "error", "no_chat", f"endpoint.chat is {chat}, but the server's chat endpoint does not answer"
    elif chat == "tools" and "tools" in facts.lacks:
        yield "error", "no_tools", "endpoint.chat is tools, but the server makes no tool call when one is required"
    elif chat == "messages" and "return_token_ids" in facts.lacks:
        yield (
            "warning", "no_return_token_ids",
            "the server does not say what tokens it makes of messages: only their number is checked",
        )  # fmt: skip
    if variant.role == "aa":
        salted = "cache_salt" not in facts.lacks
        yield (
            "info", "aa_same_server",
            "the same running server is asked again, not a second launch"
            + (", past what the first time left in its prefix cache" if salted
               else "; it may answer from what the first time left in its prefix cache"),
        )  # fmt: skip


def _compared(facts: Facts, variant: ResolvedVariant, baseline: Facts) -> Iterator[_Found]:
    ratio = facts.kv_capacity_ratio
    if variant.is_natively_quantized and ratio is not None and ratio < LEAST_CAPACITY_RATIO:
        expected = variant.expected_capacity_ratio or 2.0
        yield (
            "warning", "capacity_unchanged",
            f"the cache holds {ratio:.2f} times the baseline's tokens, and a native {variant.kv_cache_dtype} cache "
            f"about {expected:.1f} times as many in the same memory: the servers have different memory, or the "
            "format is not what it is said to be",
        )  # fmt: skip
    for key in ("attention_backend", "engine_version", "max_model_len", "prompt_form"):
        ours, theirs = getattr(facts, key), getattr(baseline, key)
        if ours != theirs and None not in (ours, theirs):
            code = "other_backend" if key == "attention_backend" else f"other_{key}"
            yield "warning", code, f"{key} {ours}, the baseline's is {theirs}: it changed together with the format"
