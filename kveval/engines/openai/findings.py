"""What a reviewer must know about a server that kveval did not launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from kveval.engines.base import auto_finding, cache_findings, changed_findings
from kveval.engines.variants import ResolvedVariant
from kveval.formats.registry import CPU_DTYPES, is_same_format, is_unquantized
from kveval.memory.measured import gains_too_little
from kveval.run.facts import Facts, Finding

_LACKING: dict[str, tuple[Literal["info", "warning"], str]] = {
    "token_ids": ("warning", "takes no token ids: prompts are sent as text, and the number of tokens it counts in each "
                  "is compared with the count of the model's tokenizer"),
    "usage": ("warning", "does not count the tokens of a prompt, or not always alike: it may cut or change a prompt, "
              "and nobody would see it"),
    "streams": ("warning", "sends no event stream: there is no time to first token"),
    "streamed_usage": ("warning", "counts prompt tokens of whole answers only: nothing is streamed, and there is no "
                       "time to first token"),
    "logprobs": ("warning", "gives no logprobs: drift is not measured"),
    "logprobs_by_id": ("info", "names tokens by their text in logprobs: drift leaves out tokens that share a text"),
    "perplexity": ("warning", "gives no logprobs of a text: whether it reads plain English is not checked"),
    "metrics": ("info", "has no vLLM metrics at /metrics: its counters are not recorded"),
    "cache_salt": ("info", "takes no cache_salt: no question can avoid its prefix cache"),
}  # fmt: skip


def judge_attached(
    facts: Facts,
    variant: ResolvedVariant,
    baseline: Facts | None,
    refusals: Mapping[str, str] | None = None,
    checkpoint_dtype: str | None = None,
    expected_ratio: float | None = None,
) -> list[Finding]:
    """Returns what a reviewer must know. An error means that the variant must not be measured.

    A declared fact proves nothing: it never leads to an error, and there is a warning that it is only declared. Two
    servers may have different memory, so an unchanged capacity is a warning too.

    Args:
        refusals: what the server said when it refused something, by the names in `facts.lacks`.
        checkpoint_dtype: the cache dtype that vLLM makes of auto for the checkpoint at hand. None if it makes none.
        expected_ratio: how many times the baseline's tokens the cache of the model at hand should hold. None if kveval
            cannot tell.
    """
    return [
        *_declared_findings(facts),
        *_dtype_findings(facts, variant, checkpoint_dtype),
        *_unknown_findings(facts, variant),
        *cache_findings(facts, variant),
        *_asking_findings(facts, variant, refusals or {}),
        *(_compared_findings(facts, variant, baseline, expected_ratio) if baseline is not None else ()),
    ]


def _declared_findings(facts: Facts) -> Iterator[Finding]:
    if facts.declared:
        said = ", ".join(f"{key} {getattr(facts, key)}" for key in facts.declared)
        yield Finding.warning("declared", f"declared in the configuration, not established from the server: {said}")


def _dtype_findings(facts: Facts, variant: ResolvedVariant, checkpoint_dtype: str | None) -> Iterator[Finding]:
    requested, effective = variant.kv_cache_dtype, facts.effective_cache_dtype
    if effective is None:
        likely = "" if checkpoint_dtype is None else f"; of auto, vLLM makes {checkpoint_dtype} for this checkpoint"
        message = f"the server does not say what its cache stores, and nothing is declared{likely}"
        yield Finding.warning("dtype_unknown", message)
    if effective is None or "effective_cache_dtype" in facts.declared:
        return
    if effective == "auto" and checkpoint_dtype is not None:
        yield auto_finding(checkpoint_dtype)
        effective = checkpoint_dtype
    if effective == "auto" and is_unquantized(requested):
        if requested != "auto":
            message = f"the server says that its cache dtype is auto, the model's own; {requested} is declared"
            yield Finding.warning("dtype_auto", message)
    elif not is_same_format(requested, effective) and requested != "auto":
        message = f"{requested} is what the configuration says, the server stores {effective}"
        yield Finding.error("dtype_mismatch", message)
    if variant.role in ("baseline", "aa") and not is_unquantized(effective):
        message = f"the baseline's cache is {effective}: there is nothing to compare with"
        yield Finding.error("baseline_quantized", message)
    if facts.device is None and effective not in CPU_DTYPES and not is_unquantized(effective):
        yield Finding.warning(
            "device_unknown",
            f"the server does not say what it runs on, and vLLM's CPU engine corrupts a cache of {effective}; it "
            f"stores correctly: {', '.join(CPU_DTYPES[1:])}",
        )


def _unknown_findings(facts: Facts, variant: ResolvedVariant) -> Iterator[Finding]:
    unknown = [
        key for key in ("engine_version", "attention_backend", "kv_capacity_tokens") if getattr(facts, key) is None
    ]
    if variant.is_natively_quantized and facts.scales == "unknown":
        unknown.append("scales")
    if unknown:
        yield Finding.warning(
            "unknown",
            f"neither said by the server nor declared: {', '.join(unknown)}; what would follow is not checked",
        )


def _asking_findings(facts: Facts, variant: ResolvedVariant, refusals: Mapping[str, str]) -> Iterator[Finding]:
    for name in facts.lacks:
        if name in _LACKING:
            level, message = _LACKING[name]
            yield Finding(level=level, code=f"no_{name}", message=f"the server {message}{_said(refusals, name)}")
    if facts.streams_as is not None:
        yield Finding.warning(
            "two_names",
            f"the server calls its model {facts.answers_as} in whole answers and {facts.streams_as} in streams; each "
            "name is compared with itself",
        )
    if facts.prompt_form == "text_without_bos":
        yield Finding.info(
            "bos_added",
            "the server puts a beginning-of-sequence token in front of every text, so kveval sends none of its own",
        )
    if facts.added_prompt_tokens:
        off = facts.added_prompt_tokens
        likely = ": a second beginning-of-sequence token, most likely" if off == 1 else ""
        yield Finding.error(
            "prompt_changed",
            f"the server counts {abs(off)} {'more' if off > 0 else 'fewer'} tokens in a prompt than the model's "
            f"tokenizer{likely}",
        )
    endpoint = variant.config.endpoint
    chat = "none" if endpoint is None else endpoint.chat
    if chat != "none" and "chat" in facts.lacks:
        yield Finding.error(
            "no_chat",
            f"endpoint.chat is {chat}, but the server's chat endpoint does not answer{_said(refusals, 'chat')}",
        )
    elif chat == "tools" and "tools" in facts.lacks:
        message = (
            f"endpoint.chat is tools, but the server makes no tool call when one is required{_said(refusals, 'tools')}"
        )
        yield Finding.error("no_tools", message)
    elif chat == "messages" and "return_token_ids" in facts.lacks:
        yield Finding.warning(
            "no_return_token_ids",
            "the server does not say what tokens it makes of messages: only their number is checked",
        )
    if variant.role == "aa":
        cache = (
            "it may answer from what the first time left in its prefix cache"
            if "cache_salt" in facts.lacks
            else "a new cache_salt hides what the first time left in its prefix cache"
        )
        message = f"the same running server is asked again, not a second launch; {cache}"
        yield Finding.info("aa_same_server", message)


def _said(refusals: Mapping[str, str], name: str) -> str:
    return f" ({refusals[name]})" if name in refusals else ""


def _compared_findings(
    facts: Facts, variant: ResolvedVariant, baseline: Facts, expected_ratio: float | None
) -> Iterator[Finding]:
    ratio, expected = facts.kv_capacity_ratio, expected_ratio or variant.expected_capacity_ratio or 2.0
    if variant.is_natively_quantized and ratio is not None and gains_too_little(ratio, expected):
        yield Finding.warning(
            "capacity_unchanged",
            f"the cache holds {ratio:.2f} times the baseline's tokens, and a native {variant.kv_cache_dtype} cache "
            f"about {expected:.1f} times as many in the same memory: the servers have "
            "different memory, or the format is not what it is said to be",
        )
    keys = ("attention_backend", "engine_version", "max_model_len", "prompt_form")
    known = [key for key in keys if None not in (getattr(facts, key), getattr(baseline, key))]
    yield from changed_findings(facts, baseline, known)
