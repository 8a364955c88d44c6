"""Reads vLLM's log: every line of it that kveval understands is written here, and nowhere else.

The lines of GPU engines are those of the source of vLLM 0.32: read, not run. A server with several processes writes a
line once for each of them.
"""

from __future__ import annotations

import re
from typing import Any

# `get_attn_backend_cls` in vllm/platforms/cuda.py, rocm.py and cpu.py; `MiMoV2Attention` in
# vllm/model_executor/models/mimo_v2.py. Kernels for experts log lines that look alike: "Using TRITON backend for ...".
_BACKENDS = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+)(?: attention)? backend"
    r"(?:\.| out of potential backends| \(selected via)"
    r"|Overriding with ([A-Z][A-Z0-9_]+) out of potential backends"
    r"|Using ([A-Z][A-Z0-9_]+) for attention\."
)
# `MLAAttention` in vllm/model_executor/layers/attention/mla_attention.py, and both models of vllm/models/deepseek_v4*.
# The worker changes the dtype after the server has read its own.
_WORKER_DTYPE = re.compile(r"Using (?:DeepSeek's )?(\w+) KV cache format(?: for [A-Z0-9_]+ backend)?\.")
_CONFIG = re.compile(r"Initializing a V1 LLM engine \((?:v([^)]+))\) with config: (.*)")

LOGGING = (
    "VLLM_LOGGING_LEVEL", "VLLM_CONFIGURE_LOGGING", "VLLM_LOGGING_CONFIG_PATH", "VLLM_LOGGING_STREAM",
    "VLLM_LOGGING_PREFIX", "VLLM_LOGGING_COLOR",
)  # fmt: skip
"""Environment variables by which vLLM logs other lines, or to another place (vllm/envs.py)."""

LOG_LEVELS = ("INFO", "DEBUG")
"""What VLLM_LOGGING_LEVEL may be, so that the log has what kveval reads."""

# What vLLM logs while it starts, the latest first, and what it is doing then.
_STATUS = (
    ("Application startup complete", "ready"),
    ("init engine", "warming up"),
    ("KV cache size", "warming up"),
    ("Loading weights took", "allocating the KV cache"),
    ("Starting to load model", "loading weights"),
    ("Initializing a V1 LLM engine", "starting workers"),
    ("non-default args", "reading the model's configuration"),
)


def status_of(log: str) -> str:
    """Says what a starting server is doing."""
    return next((status for marker, status in _STATUS if marker in log), "importing vLLM")


def log_facts(log: str) -> dict[str, Any]:
    """Reads what only the log says: backends, eager or graphs, model dtype, device. Keys are names of `Facts`.

    Layers may have several backends. They are named in the order in which they were logged.
    """
    facts: dict[str, Any] = {}
    backends = dict.fromkeys(next(filter(None, match)) for match in _BACKENDS.findall(log))
    if backends:
        facts["attention_backend"] = ", ".join(backends)
    config = _CONFIG.search(log)
    if config:
        line = config[2]
        for key, pattern in (("model_dtype", r"\bdtype=torch\.(\w+)"), ("device", r"\bdevice_config=(\w+)")):
            match = re.search(pattern, line)
            if match:
                facts[key] = match[1]
        eager = re.search(r"\benforce_eager=(True|False)", line)
        if eager:
            facts["execution"] = "eager" if eager[1] == "True" else "graphs"
    batched = re.search(r"max_num_batched_tokens[=:\s]+(\d+)", log)
    if batched:
        facts["max_num_batched_tokens"] = int(batched[1])
    memory = re.search(r"Available KV cache memory: ([\d.]+) GiB", log)
    if memory:
        facts["kv_cache_gib"] = float(memory[1])
    stored = dict.fromkeys(_WORKER_DTYPE.findall(log))
    if stored:
        facts["effective_cache_dtype"] = ", ".join(stored)
    if facts.get("device") == "cpu" and "attention_backend" not in facts:
        # The CPU platform logs no backend for ordinary attention (vllm/platforms/cpu.py).
        facts["attention_backend"] = "CPU_ATTN"
    return facts


def speculative_method(log: str) -> str | None:
    """Returns the method of speculative decoding that a speculating server names."""
    method = re.search(r"speculative_config=SpeculativeConfig\(method='(\w+)'", log)
    return method[1] if method else None


def scales_are_1(log: str) -> bool:
    """Whether the server says that a calibrated checkpoint left K and V at scale 1.0."""
    return "Using KV cache scaling factor 1.0" in log
