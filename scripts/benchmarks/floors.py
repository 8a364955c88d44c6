"""How many samples of each family small models always or never get right, on a BF16 cache: what can show a loss."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from kveval.config.sweep import SweepConfig
from kveval.engines.registry import find_installation
from kveval.measure.plan.plan import make_plan
from kveval.measure.progress import LineReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory

# SmolLM2 reads 8,192 tokens, output included.
_CONTEXT_LENGTHS = {"smollm2": ("2k", "7k"), "gemma3-270m": ("2k", "8k")}
# One or two of each family, easy and hard ones.
_TASKS = (
    "niah_single", "niah_multikey", "qa_single_hop", "qa_two_hop", "coverage_list", "code_find_function",
    "code_definition", "recite_pairs", "extract_record", "tools_catalogue", "fact_update",
)  # fmt: skip
_QUESTIONS = 10


def measure() -> dict[str, Any]:
    """Most of an hour on two cores."""
    return {model: asyncio.run(_floors(model)) for model in _CONTEXT_LENGTHS}


async def _floors(model: str) -> dict[str, Any]:
    config = _config(model)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        plan = make_plan(config, find_installation(config.engine))
        await sweep(plan, out, resume=False, reporter=LineReporter(Console(stderr=True)))
        return shares(out)


def shares(out: Path) -> dict[str, Any]:
    """By family and context length: samples, mean score, share at score 0 and at score 1."""
    records = RunDirectory(out).records("bf16")
    table = pd.DataFrame(
        [(record.family, record.context_length, record.score) for record in records],
        columns=["family", "context_length", "score"],
    )
    return {
        family: {
            str(length): {
                "samples": len(scores),
                "score": round(float(scores.mean()), 3),
                "floor_share": round(float((scores == 0).mean()), 3),
                "ceiling_share": round(float((scores == 1).mean()), 3),
            }
            for length, scores in rows.groupby("context_length")["score"]
        }
        for family, rows in table.groupby("family")
    }


def _config(model: str) -> SweepConfig:
    values: dict[str, Any] = {
        "model": model,
        "variants": ["bf16"],
        "tasks": list(_TASKS),
        "context_lengths": list(_CONTEXT_LENGTHS[model]),
        "samples": _QUESTIONS,
        "questions_per_haystack": _QUESTIONS,
        "aa_share": 0.0,
        "requests": {"logprobs": 0},
        "engine": {"kv_cache_gib": 4, "args": {"enforce-eager": True}},
    }
    return SweepConfig.model_validate(values)
