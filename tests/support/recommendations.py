"""Runs whose candidates save memory, and what `kveval recommend` says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from kveval.cli.app import app
from kveval.run.records import Outcome, SampleRow
from support.make_run import Answer, make_run, scored

ENGINE_ARGS = {"max_num_seqs": 8, "max-logprobs": 20, "port": 8000, "attention-backend": "TRITON_ATTN"}
NATIVE = {
    "engine_version": "0.32.0", "device": "cuda", "storage": "native", "execution": "graphs", "prefix_caching": True,
    "max_model_len": 8240, "block_size": 16,
}  # fmt: skip


def document(path: Path, *flags: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["recommend", str(path), "--json", *flags])
    found: dict[str, Any] = json.loads(done.output)
    assert found["exit_code"] == done.exit_code
    return found


def losing(share: float, *, from_length: int = 0) -> Answer:
    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = scored(0.9)(row, rng)
        lost = row.context_length >= from_length and rng.random() < share
        return ("wrong", "lost") if given and given[0] == "correct" and lost else given

    return answer


def variant(dtype: str, ratio: float | None, emulate: str | None = None, **changes: Any) -> dict[str, Any]:
    """Fields of a variant whose cache holds `ratio` times 100,000 tokens."""
    facts = {
        **NATIVE, "effective_cache_dtype": dtype, "kv_capacity_ratio": ratio,
        "kv_capacity_tokens": None if ratio is None else int(100_000 * ratio), "kv_cache_gib": 10.0,
    }  # fmt: skip
    spec: dict[str, Any] = {"kv_cache_dtype": dtype, "engine_args": ENGINE_ARGS, "model": "/models/Llama 8B"}
    if emulate:
        facts |= {"storage": "emulated", "emulation": f"{emulate} per_token_head"}
        spec["emulate"] = {"format": emulate, "granularity": "per_token_head", "layers": None, "scale": None}
    return {"spec": spec, "facts": facts | changes.pop("facts", {}), **changes}


VARIANTS = {"bf16": variant("bfloat16", None, facts={"kv_capacity_tokens": 100_000}), "fp8": variant("fp8", 2.0)}


def run(
    path: Path,
    answers: Mapping[str, Answer] | None = None,
    variants: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    config = {"model": "/models/Llama 8B", "engine": {"env": {"VLLM_LOGGING_LEVEL": "INFO"}}}
    manifest = {"config": config, "versions": {"vllm": "0.32.0"}, **changes.pop("manifest", {})}
    return make_run(
        path,
        answers=answers or {"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={**VARIANTS, **(variants or {})},
        manifest=manifest,
        **changes,
    )
