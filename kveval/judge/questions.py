"""What a run asked. Two runs may be compared only if they asked the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kveval.judge.run_data import RunData


@dataclass(frozen=True, slots=True)
class Questions:
    """The samples of a run, and all that decides which answers are right.

    `inputs` are hashes of the model, the tokenizer and the task files.
    """

    samples: pd.DataFrame
    prompts_sha256: str
    sampling: Mapping[str, Any]
    inputs: Mapping[str, str]


def questions_of(run: RunData) -> Questions:
    return Questions(run.samples, prompts_sha256(run.samples), run.manifest.sampling, run.manifest.inputs)


def prompts_sha256(samples: pd.DataFrame) -> str:
    """Returns the hash of every prompt, in the order of the sample ids."""
    lines = (f"{sample_id} {value}" for sample_id, value in samples["prompt_sha256"].sort_index().items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def differing_questions(first: Questions, second: Questions) -> str | None:
    """Names what two runs asked differently. None if their answers may be compared.

    A sample id hashes the task, its version, the prompt, the references and the output budget, so equal ids mean equal
    questions. They do not say which code scored the answers: see `differing_scorers`.
    """
    tasks = [set(questions.samples["task"]) for questions in (first, second)]
    if tasks[0] != tasks[1]:
        return f"only one of them asked task {min(tasks[0] ^ tasks[1])!r}"
    alone = first.samples.index.symmetric_difference(second.samples.index)
    if len(alone):
        return (
            f"{len(alone)} questions were asked in only one of them; other prompts, references, seeds or lengths make "
            "other samples"
        )
    if first.prompts_sha256 != second.prompts_sha256:
        return "the prompts of the same questions differ"
    for key in sorted(first.sampling.keys() | second.sampling.keys()):
        before, after = first.sampling.get(key), second.sampling.get(key)
        if before != after:
            return f"sampling setting {key!r} differs: {before!r} and {after!r}"
    return None


def differing_scorers(first: Questions, second: Questions) -> str | None:
    """Names a task whose files differ between two runs that asked the same. None if all are equal."""
    for task in sorted(set(first.samples["task"])):
        for name in (f"task/{task}", f"task/{task}/files"):
            if first.inputs.get(name) != second.inputs.get(name):
                return f"a task or its scorer differs ({name}); use runs with the same task files and scorers"
    return None
