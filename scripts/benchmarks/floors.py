"""Measures which task families small models can be tested on: how many samples they always or never get right."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

import kveval
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
    """Takes most of an hour on two cores."""
    return {model: _floors(model) for model in _CONTEXT_LENGTHS}


def _floors(model: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return shares(kveval.sweep(_config(model), out=Path(folder) / "run").path)


def shares(out: Path) -> dict[str, Any]:
    """Returns, by family and context length: samples, mean score, share at score 0 and at score 1."""
    records = RunDirectory(out).records("bf16")
    table = pd.DataFrame(
        [(record.family, record.context_length, record.score) for record in records],
        columns=["family", "context_length", "score"],
    )
    return {
        str(family): {
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


def _config(model: str) -> dict[str, Any]:
    return {
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
