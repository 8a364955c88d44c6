"""Compares kveval's load figures with those of vLLM's own serving benchmark, on one server with the same settings."""

from __future__ import annotations

import contextlib
import statistics
import sys
import uuid
from typing import Any

from benchmarks.server import Server
from kveval.config.engine import RequestsConfig
from kveval.engines.client.client import Client
from kveval.load.drive import drive
from kveval.load.prompts import ordinary_tokens
from kveval.load.summary import summarize
from kveval.run.load_results import Level

_ROUNDS = 15
_PROMPT_TOKENS = 512
_OUTPUT_TOKENS = 32
# Requests by concurrency: a round is short, so that both tools see the same weather.
_LOADS = {1: 3, 4: 8}

# What both report, by kveval's name, then vLLM's. Its ITL is every gap, its TPOT the mean gap of a request.
_FIGURES = {
    "ttft_ms": "median_ttft_ms",
    "itl_ms": "median_tpot_ms",
    "gap_ms": "median_itl_ms",
    "latency_ms": "median_e2el_ms",
    "output_tokens_per_s": "output_throughput",
    "total_tokens_per_s": "total_token_throughput",
}


async def measure(server: Server) -> dict[str, Any]:
    return {
        "rounds": _ROUNDS,
        "prompt_tokens": _PROMPT_TOKENS,
        "output_tokens": _OUTPUT_TOKENS,
        **{f"concurrency_{concurrency}": await _compare(server, concurrency) for concurrency in _LOADS},
    }


async def _compare(server: Server, concurrency: int) -> dict[str, Any]:
    kveval: list[dict[str, float]] = []
    vllm: list[dict[str, float]] = []
    await _kveval(server, concurrency, seed=_ROUNDS)
    for round_number in range(_ROUNDS):
        # The order alternates, so that a machine that slows down or speeds up favours neither.
        for turn in ("kveval", "vllm") if round_number % 2 == 0 else ("vllm", "kveval"):
            if turn == "kveval":
                kveval.append(await _kveval(server, concurrency, seed=round_number))
            else:
                vllm.append(await _vllm(server, concurrency, seed=1000 + round_number))
    figures: dict[str, Any] = {"requests": _LOADS[concurrency]}
    for name in _FIGURES:
        ratios = [ours[name] / theirs[name] for ours, theirs in zip(kveval, vllm, strict=True)]
        figures[name] = {
            "kveval_median": round(statistics.median(one[name] for one in kveval), 2),
            "vllm_median": round(statistics.median(one[name] for one in vllm), 2),
            "ratio_median": round(statistics.median(ratios), 3),
            # Whatever else runs on the machine only slows a round down, so the best ones compare best.
            "ratio_of_best": round(_best(name, kveval) / _best(name, vllm), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
        }
    return figures


def _best(name: str, rounds: list[dict[str, float]]) -> float:
    values = [figures[name] for figures in rounds]
    return min(values) if name.endswith("_ms") else max(values)


async def _kveval(server: Server, concurrency: int, seed: int) -> dict[str, float]:
    engine = server.engine
    level = Level(
        kind="closed",
        concurrency=concurrency,
        prompt_lengths=[_PROMPT_TOKENS],
        output_tokens=_OUTPUT_TOKENS,
        requests=_LOADS[concurrency],
        warmup_requests=0,
        seed=seed,
    )
    once = RequestsConfig(max_attempts=1, logprobs=0)
    async with Client(engine.base_url, engine.model_name, once, engine.exit_message) as client:
        driven = await drive(
            level, client, ordinary_tokens(engine.model), salt=uuid.uuid4().hex, processes=engine.processes()
        )
    result = summarize(driven)
    if result.findings:
        raise RuntimeError(result.findings[0].message)
    return {name: getattr(result, name).median if name.endswith("_ms") else getattr(result, name) for name in _FIGURES}


async def _vllm(server: Server, concurrency: int, seed: int) -> dict[str, float]:
    from vllm.benchmarks.serve import add_cli_args, main_async
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    arguments = parser.parse_args(
        [
            "--backend", "openai", "--base-url", server.engine.base_url, "--model", server.engine.model_name,
            "--tokenizer", str(server.engine.model), "--dataset-name", "random",
            "--random-input-len", str(_PROMPT_TOKENS), "--random-output-len", str(_OUTPUT_TOKENS),
            "--num-prompts", str(_LOADS[concurrency]), "--max-concurrency", str(concurrency),
            "--request-rate", "inf", "--ignore-eos", "--temperature", "0",
            # Its warm-up sends the first prompt of the round, which then comes from the prefix cache.
            "--num-warmups", "0", "--ready-check-timeout-sec", "0", "--seed", str(seed),
            "--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm",
        ]
    )  # fmt: skip
    # It prints its own report.
    with contextlib.redirect_stdout(sys.stderr):
        result = await main_async(arguments)
    if result["completed"] != _LOADS[concurrency]:
        raise RuntimeError(f"vLLM's benchmark completed {result['completed']} of {_LOADS[concurrency]} requests")
    return {name: float(result[theirs]) for name, theirs in _FIGURES.items()}
