"""Speculative decoding as a variant asks for it, in vLLM's own words: the JSON of ``--speculative-config``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kveval.errors import nearest

_EXAMPLE = "{method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}"

# Fields of SpeculativeConfig in vLLM 0.32 (vllm/config/speculative.py) that a user gives.
KEYS = (
    "method", "model", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "prompt_lookup_max",
    "prompt_lookup_min", "draft_tensor_parallel_size", "quantization", "moe_backend", "attention_backend",
    "kv_cache_dtype", "max_model_len", "revision", "code_revision", "index_share_for_mtp_iteration", "enforce_eager",
    "disable_padded_drafter_batch", "disable_eagle_block_drop", "use_local_argmax_reduction",
    "use_heterogeneous_vocab", "parallel_drafting", "suffix_decoding_max_tree_depth",
    "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob",
    "draft_load_config", "rejection_sample_method", "enable_adaptive_verification", "draft_sample_method",
    "dspark_draft_topk",
)  # fmt: skip
METHODS = (
    "ngram", "ngram_gpu", "suffix", "draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "mtp", "dflash",
    "dspark", "custom_class", "deepseek_mtp", "mimo_mtp", "mimo_v2_mtp", "glm4_moe_mtp", "glm4_moe_lite_mtp",
    "glm_ocr_mtp", "ernie_mtp", "nemotron_h_mtp", "exaone_moe_mtp", "exaone4_5_mtp", "qwen3_next_mtp",
    "qwen4_exp_mtp", "qwen3_5_mtp", "longcat_flash_mtp", "bailing_hybrid_v3_mtp", "bailing_hybrid_mtp",
    "minimax_m3_mtp", "kimi_k3_mtp", "pangu_ultra_moe_mtp", "step3p5_mtp", "hy_v3_mtp", "hy_v4_mtp", "gemma4_mtp",
    "dots3_note_mtp", "inkling_mtp", "glm5_next_mtp",
)  # fmt: skip
NGRAM = ("ngram", "ngram_gpu")

_COUNTS = ("num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min")
# They make vLLM accept drafts at a fixed rate, without checking them: the answers would no longer be the model's.
_UNREAD = ("synthetic_acceptance_rates", "synthetic_acceptance_length")


def expand_speculative(value: Any) -> dict[str, Any] | None:
    """Returns `value` with its method named and its keys as vLLM spells them."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a mapping; use for example {_EXAMPLE}")
    settings = {str(key).replace("-", "_"): one for key, one in value.items()}
    for key in settings:
        if key in _UNREAD:
            raise ValueError(f"{key}: accepts drafts unread, answers would not be the model's; leave it out")
        if key not in KEYS:
            raise ValueError(f"unknown key {key!r}; {nearest(key, KEYS)}")
    if settings.get("rejection_sample_method") == "synthetic":
        raise ValueError(
            "rejection_sample_method: 'synthetic' accepts drafts unread, so that answers are not the model's; "
            "use: standard, block"
        )
    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot be written as JSON ({error}); use for example {_EXAMPLE}") from error
    method = _method(settings)
    for key in _COUNTS:
        count = settings.get(key)
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ValueError(f"{key}: {count!r} is not allowed; use: a whole number from 1 on")
    if method in NGRAM and "num_speculative_tokens" not in settings:
        raise ValueError(f"num_speculative_tokens: required by {method}, not given; use for example {_EXAMPLE}")
    least, most = settings.get("prompt_lookup_min"), settings.get("prompt_lookup_max")
    if least and most and least > most:
        raise ValueError(f"prompt_lookup_min: {least} is above prompt_lookup_max ({most}); use: 1 to {most}")
    return {"method": method, **{key: one for key, one in settings.items() if key != "method"}}


def _method(settings: Mapping[str, Any]) -> str:
    """Returns the method, inferred from the model as vLLM does if it is not named."""
    method, model = settings.get("method"), settings.get("model")
    if method is None:
        if model is None:
            raise ValueError(f"method: required, not given; use for example {_EXAMPLE}")
        return "ngram" if model in ("ngram", "[ngram]") else "draft_model"
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of vLLM's; {nearest(str(method), METHODS)}")
    return str(method)
