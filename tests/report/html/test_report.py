from __future__ import annotations

from pathlib import Path

import pytest
from numpy.random import Generator
from support.make_run import make_run, make_samples, scored
from support.pages import page_of

from kveval.report.html.report import build_report
from kveval.run.records import Outcome, SampleRow


def huge(row: SampleRow, _: Generator) -> tuple[Outcome, str]:
    return "wrong", "x" * 200_000


@pytest.fixture
def samples() -> list[SampleRow]:
    return make_samples(tasks={"niah_multikey": "needle", "qa": "qa"}, haystacks=8, questions=3)


def test_a_whole_report(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(
        tmp_path / "night",
        samples=samples,
        answers={
            "bf16": scored(0.9), "fp8": scored(0.4), "int8": scored(0.88), "again": scored(0.9),
            "control": scored(0.89),
        },
        variants={
            "fp8": {
                "facts": {"storage": "native", "attention_backend": "FLASHINFER", "kv_capacity_tokens": 200_000,
                          "kv_capacity_ratio": 2.0},
                "findings": [{"level": "warning", "code": "scales_1", "message": "K and V scales are all 1.0"}],
            },
            "int8": {
                "facts": {"storage": "emulated", "emulation": "int8 per_token_head", "kv_capacity_tokens": 100_000}
            },
            "again": {"role": "aa", "of": "bf16"},
            "control": {"role": "control", "of": "fp8"},
        },
    )  # fmt: skip
    _, page = page_of(path)
    words = page.words
    assert "fp8: fails at" in words
    assert "Do not ship fp8." in words
    assert "K and V scales are all 1.0" in words
    assert "emulated int8 per_token_head: no memory saved" in words
    assert "none gained here: emulated" in words
    assert "No memory is saved, and the kernel of a native cache is not tested" in words
    assert "fits 2.00x the tokens (200,000 vs 100,000)" in words
    assert "source of the loss" in words
    assert "Total = format + kernel" in words
    assert "The kernel causes the loss, not the format." in words
    assert "FLASHINFER (differs)" in words
    assert "What is the value of key" in words
    assert "kveval sweep demo" in words
    assert sum(tag == "details" and "data-id" in attributes for tag, attributes in page.tags) > 40
    assert sum(tag == "figure" for tag, _ in page.tags) == 3


def test_long_outputs_are_cut_and_counted(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=4, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": huge})
    text, page = page_of(path)
    assert len(text) < 250_000
    assert "196,000 more characters are in the run directory" in page.words


def test_a_refused_variant(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9)},
        variants={"fp8": {"status": "refused", "reason": "effective dtype is bfloat16", "facts": None}},
    )
    _, page = page_of(path)
    assert "fp8: not measured: fp8 refused: effective dtype is bfloat16." in page.words
    assert "not known: the engine was not started" in page.words
    assert "✓ pass" not in page.words


@pytest.mark.parametrize("status", ["running", "incomplete"])
def test_a_partial_run_says_so(tmp_path: Path, samples: list[SampleRow], status: str) -> None:
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9)},
        variants={"fp8": {"status": "planned", "facts": None}},
        manifest={"status": status, "finished": None},
    )
    _, page = page_of(path)
    assert f"Partial: this run is {status}" in page.words
    assert "fp8 not measured yet" in page.words


def test_an_empty_run(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=[], answers={"bf16": scored(1)})
    _, page = page_of(path)
    assert "No candidate was measured against bf16" in page.words


def test_one_sample(tmp_path: Path) -> None:
    samples = make_samples(lengths=(3000,), haystacks=1, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": scored(-0.1)})
    _, page = page_of(path)
    assert "only one context, so the error cannot be estimated" in page.words


def test_written_where_asked(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1)})
    assert build_report(path) == path / "report.html"
    assert build_report(path, tmp_path / "other.html") == tmp_path / "other.html"
    assert (tmp_path / "other.html").stat().st_size > 1000
