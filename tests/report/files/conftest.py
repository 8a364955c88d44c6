"""Judged runs with hostile text in names and outputs."""

from __future__ import annotations

import numpy as np
import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.gate.gate import Gate, gate
from kveval.run.records import Outcome, SampleRow

HOSTILE = (
    "</failure></testcase><script>alert(1)</script>]]>&amp;&#x0;\x00\x1b[31m\u202e\ufffe"
    "\n\n# heading\n```\n| a | b |\n<img src=x onerror=alert(1)> [click](https://evil.example) "
    "@everyone ``` www.evil.example"
)


def hostile(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str]:
    return ("wrong", HOSTILE) if rng.random() < 0.3 else ("correct", row.doc["answers"][0])


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gate]:
    folder = tmp_path_factory.mktemp("runs")
    samples = make_samples(tasks={"niah_multikey": "needle", "qa<b>": "qa|x"}, haystacks=200, questions=1)
    emulated = {"storage": "emulated", "emulation": "int8 per_token_head (emulated)", "engine_version": "0.32.0"}
    judged = make_run(
        folder / "run",
        samples=samples,
        answers={"bf16": scored(0.9), "same": scored(0.9), "int8": hostile, "bf16-aa": scored(0.9)},
        variants={
            "int8": {
                "facts": emulated,
                "findings": [{"level": "warning", "code": "x", "message": f"odd {HOSTILE}"}],
            },
            "bf16-aa": {"role": "aa", "of": "bf16"},
            "fp8": {"status": "refused", "reason": f"no {HOSTILE}"},
        },
        manifest={"status": "incomplete"},
    )
    few = make_run(
        folder / "few", samples=make_samples(haystacks=7, questions=2), answers={"bf16": scored(0.9), "b": scored(0.9)}
    )
    return {
        "judged": gate(judged),
        "blocked": gate(few),
        "allowed": gate(few, overrides={"undecided": "allow"}),
    }
