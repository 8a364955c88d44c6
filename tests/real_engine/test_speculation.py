"""Speculative decoding on a real vLLM server with a real model: drafts are made, accepted, counted and harmless."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.processor import needs_avx512

from kveval.engines.variants import local_cpu_flags
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.evidence.speculation import Speculation, speculations
from kveval.judge.run_data import RunData, load_run
from kveval.run.records import unpack_logprobs

pytestmark = [
    pytest.mark.vllm,
    needs_avx512,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
    pytest.mark.skipif(local_cpu_flags() == frozenset(), reason="written for what vLLM's CPU build can draft with"),
]

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
VARIANTS = [
    "bf16",
    {"name": "bf16-ngram", "kv_cache_dtype": "bfloat16", "speculative_config": NGRAM},
    # Emulated on CPU: what is drafted is rounded, too.
    "int8",
    {"name": "int8-ngram", "kv_cache_dtype": "int8", "speculative_config": NGRAM},
]


def kveval(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kveval.cli.app import main; main()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, smollm2: Path, one_engine: None) -> Path:
    folder = tmp_path_factory.mktemp("speculative")
    settings = {
        "model": str(smollm2), "variants": VARIANTS, "context_lengths": [1024], "haystack": "generated",
        "tasks": ["recite_pairs"], "samples": 2, "questions_per_haystack": 2, "aa_share": 0.0, "cold_check": 0,
        "engine": {"kv_cache_gib": 1},
    }  # fmt: skip
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    done = kveval("sweep", config, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    assert "drafted tokens accepted" in done.stdout
    return folder / "run"


@pytest.fixture(scope="module")
def run(path: Path) -> RunData:
    return load_run(path)


def speculation(run: RunData, name: str) -> Speculation:
    return next(one for one in speculations(run, judge_run(run).policy) if one.variant == name)


@pytest.mark.parametrize(("name", "partner"), [("bf16-ngram", "bf16"), ("int8-ngram", "int8")])
def test_drafts_are_counted_and_outputs_stay(run: RunData, name: str, partner: str) -> None:
    facts = run.manifest.variants[name].facts
    assert (facts.speculative_method, facts.speculative_tokens) == ("ngram", 3)
    found = speculation(run, name)
    assert found.partner == partner
    assert found.drafts is not None
    assert found.drafts.steps > 0
    assert found.drafts.accepted > 0
    assert found.drafts.tokens_per_step is not None
    assert 1 < found.drafts.tokens_per_step <= 4
    assert len(found.drafts.by_position) == 3
    assert list(found.drafts.by_position) == sorted(found.drafts.by_position, reverse=True)
    assert found.drafts.accepted == pytest.approx(sum(found.drafts.by_position) * found.drafts.steps)
    # Greedy: what differs may differ only where two tokens were nearly as likely.
    assert found.parting is not None
    assert found.parting.samples == 2
    assert found.parting.most_nats is None or found.parting.most_nats < 0.5


def test_nothing_is_drafted_where_nothing_was_asked(run: RunData) -> None:
    for name in ("bf16", "int8"):
        assert run.manifest.variants[name].facts.speculative_tokens is None
        assert "spec_drafts" not in run.manifest.variants[name].counters


def test_every_token_has_its_logprobs(run: RunData) -> None:
    for name in ("bf16", "bf16-ngram", "int8-ngram"):
        for record in run.records[name].itertuples():
            ids, logprobs = unpack_logprobs(str(record.logprobs))
            assert len(ids) == record.output_tokens > 0
            assert ids[:, 0].min() >= 0
            assert logprobs[:, 0].max() <= 0


def test_the_two_can_be_diffed_and_the_report_shows_them(path: Path) -> None:
    done = kveval("diff", f"{path}:bf16", f"{path}:bf16-ngram")
    assert done.returncode == 0, done.stderr
    assert "speculative_method: none -> ngram" in done.stdout
    assert '<h3 id="speculation">' in (path / "report.html").read_text()
