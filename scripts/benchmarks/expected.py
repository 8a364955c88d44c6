"""Measures what forced decode buys: the error of the expected score beside that of greedy answers, the questions each
needs, and the divergence along a text.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import kveval
from kveval.config.judge import Policy
from kveval.judge.comparison.endpoint import Endpoint
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.divergence.of_run import VariantDivergence, divergences
from kveval.judge.run_data import RunData, load_run
from kveval.judge.statistics.difference import Difference

_MODELS = ("smollm2", "gemma3-270m")
_TASKS = ("niah_multikey", "qa_single_hop", "code_definition")
_QUESTIONS, _QUESTIONS_PER_HAYSTACK = 300, 10
# 1,000 tokens and more for each variant.
_DIVERGENCE = {"samples": 10, "tokens": 128}
_MARGIN = 0.01
# One-sided 97.5% and 80% power of the normal distribution.
_Z = 1.96 + 0.84
_VARIANTS: tuple[Any, ...] = (
    "bf16",
    {"name": "fp8", "control": "emulated"},
    "fp8_e5m2",
    {"name": "int8", "emulate": {"format": "int8", "granularity": "per_token_head"}},
    {"name": "int8-per-tensor", "emulate": {"format": "int8", "granularity": "per_tensor"}},
    {"name": "int4", "emulate": {"format": "int4", "granularity": "per_token_head"}},
)


def measure() -> dict[str, Any]:
    """Takes most of a night on two cores."""
    return {model: _measure(model) for model in _MODELS}


def _measure(model: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "model": model,
            "variants": list(_VARIANTS),
            "tasks": list(_TASKS),
            "context_lengths": ["2k"],
            "samples": _QUESTIONS,
            "questions_per_haystack": _QUESTIONS_PER_HAYSTACK,
            "cold_check": 0,
            "requests": {"logprobs": 0},
            "divergence": _DIVERGENCE,
        }
        return figures(kveval.sweep(config, out=Path(folder) / "run").path)


def figures(out: Path) -> dict[str, Any]:
    """Returns, by task and variant, both differences, their errors, and the questions that each needs.

    Also the correlation of the two differences over all variants of a task, by their ranks.
    """
    run = load_run(out)
    judgement = judge_run(run, Policy(margin=_MARGIN))
    by_task: dict[str, dict[str, Any]] = {}
    for row in judgement.comparisons:
        if row.scope.level == "cell" and row.expected:
            by_task.setdefault(f"{row.scope.task}@{row.scope.context_length}", {})[row.variant] = {
                "questions": row.greedy.asked,
                "greedy": _endpoint(row.greedy),
                "expected": _endpoint(row.expected[0]),
                "variance_ratio": _ratio(row.greedy.difference, row.expected[0].difference),
            }
    return {
        "tasks": {
            task: {"variants": variants, "rank_correlation": _rank_correlation(variants)}
            for task, variants in by_task.items()
        },
        "seconds": {name: round(variant.asking_seconds, 1) for name, variant in run.manifest.variants.items()},
        "forced_tokens": {name: _forced_tokens(run, name) for name in run.manifest.variants},
        "divergence": {one.variant: _divergence(one) for one in divergences(run)},
    }


def _divergence(one: VariantDivergence) -> dict[str, Any]:
    summary = one.summary
    return {
        "tokens": summary.tokens if summary else 0,
        "kld_mean": _rounded(summary.kld_mean.value) if summary else None,
        "kld_se": _rounded(summary.kld_mean.se) if summary else None,
        "same_top": _rounded(summary.same_top.value) if summary else None,
        "ppl_ratio": _rounded(summary.ppl_ratio.value) if summary else None,
        "divergence_seconds_per_1000_tokens": _rounded(one.seconds_per_1000_tokens),
        "bytes_per_token": _rounded(one.bytes_per_token),
    }


def _endpoint(one: Endpoint) -> dict[str, Any]:
    difference = one.difference
    return {
        "kind": one.kind,
        "baseline": _rounded(one.baseline_score.mean),
        "difference": _rounded(difference.delta),
        "se": _rounded(difference.se),
        "z": _rounded(_over(difference.delta, difference.se)),
        "questions_to_decide": _questions(difference),
    }


def _questions(difference: Difference) -> int | None:
    """Returns how many questions pass a margin of one point, or show a loss beyond it.

    None at the margin itself, and where nothing differed: an error of 0 is an error nobody has seen.
    """
    if difference.delta is None or not difference.se:
        return None
    gap = abs(min(difference.delta, 0.0) + _MARGIN)
    # The error of one question, from the clustered error of all of them.
    return None if gap == 0 else math.ceil((_Z * difference.se / gap) ** 2 * difference.n)


def _ratio(greedy: Difference, expected: Difference) -> float | None:
    ratio = _over(greedy.se or None, expected.se)
    return None if ratio is None else _rounded(ratio**2)


def _over(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _rank_correlation(variants: dict[str, Any]) -> float | None:
    pairs = [
        (found["greedy"]["difference"], found["expected"]["difference"])
        for found in variants.values()
        if None not in (found["greedy"]["difference"], found["expected"]["difference"])
    ]
    if len(pairs) < 3:
        return None
    from scipy import stats

    return _rounded(float(stats.spearmanr(*zip(*pairs, strict=True)).statistic))


def _forced_tokens(run: RunData, variant: str) -> int:
    expected = [one for one in run.records[variant]["expected"] if one]
    return sum(len(ids) for one in expected for ids in one["token_ids"])
