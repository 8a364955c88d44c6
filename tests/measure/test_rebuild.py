"""The prompt of a stored sample, built again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kveval.errors import RunDirectoryError
from kveval.measure.plan.manifest import new_manifest
from kveval.measure.plan.plan import Plan
from kveval.measure.rebuild import rebuild_prompt
from kveval.run.records import SampleRow
from kveval.tasks.sample import Sample


def stored(sample: Sample, **changes: object) -> SampleRow:
    values = {
        "sample_id": sample.sample_id,
        "haystack_id": sample.haystack_id,
        "task": sample.task,
        "family": sample.family,
        "context_length": sample.context_length,
        "prompt_tokens": len(sample.prompt),
        "prompt_sha256": sample.prompt.sha256(),
        "first_token_ids": [],
        "depth_percent": sample.depth_percent,
        "max_output_tokens": sample.max_output_tokens,
        "stop": [],
        "doc": dict(sample.doc),
    }
    return SampleRow.model_validate(values | changes)


def test_every_prompt_is_the_one_that_was_asked(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(tasks=["niah_single", "niah_multikey"], context_lengths=[512, 1024])
    manifest = new_manifest(plan)
    for sample in plan.samples[::5]:
        rebuilt, text = rebuild_prompt(manifest, stored(sample))
        assert rebuilt.prompt.token_ids().tolist() == sample.prompt.token_ids().tolist()
        assert text == plan.prompt_format.decode(sample.prompt.token_ids())


def test_what_cannot_be_built_again_says_why(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of()
    manifest, sample = new_manifest(plan), plan.samples[0]
    other = manifest.model_copy(update={"inputs": manifest.inputs | {"tokenizer": "0" * 64}})
    with pytest.raises(RunDirectoryError, match=r"the tokenizer of .* differs from the run's"):
        rebuild_prompt(other, stored(sample))
    with pytest.raises(RunDirectoryError, match="make different samples of niah_single"):
        rebuild_prompt(manifest, stored(sample, sample_id="f" * 16))
    with pytest.raises(RunDirectoryError, match="prompt_sha256 differs"):
        rebuild_prompt(manifest, stored(sample, prompt_sha256="f" * 64))
    with pytest.raises(RunDirectoryError, match="make different samples of gone"):
        rebuild_prompt(manifest, stored(sample, task="gone"))


def test_a_prompt_of_a_task_of_ones_own(plan_of: Callable[..., Plan], own_tasks: Path) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine"])
    rebuilt, _ = rebuild_prompt(new_manifest(plan), stored(plan.samples[0]))
    assert rebuilt.sample_id == plan.samples[0].sample_id
