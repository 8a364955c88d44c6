"""Builds the full prompt of a run's sample again from the run's configuration, and checks it against its hash.

This needs the model's tokenizer and the texts, but no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import KvevalError, RunDirectoryError
from kveval.measure.plan.growth import grown_cells
from kveval.measure.plan.prompts import read_prompts
from kveval.measure.plan.samples import fixed_samples, generated_samples
from kveval.measure.plan.tasks import plan_cells, read_tasks
from kveval.models.checkpoint import read_model
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest
from kveval.run.records import Record, SampleRow
from kveval.tasks.sample import Sample
from kveval.tasks.task_files import PREFIX


@dataclass(frozen=True, slots=True)
class AskedSample:
    """A sample of a run as it was asked, and every answer to it.

    Attributes:
        text: all tokens of the prompt as text, special tokens included: byte for byte what the model read.
        records: by variant.
    """

    row: SampleRow
    sample: Sample
    text: str
    records: dict[str, Record]

    def document(self) -> dict[str, Any]:
        """Returns everything as data for JSON: ``kveval show --json``."""
        chat = self.sample.chat
        answered = {"outcome", "score", "output", "finish_reason", "output_tokens"}
        return {
            **self.row.model_dump(
                include={
                    "sample_id", "haystack_id", "task", "context_length", "depth_percent", "prompt_tokens",
                    "prompt_sha256", "doc",
                }
            ),
            "prompt": self.text,
            "prompt_token_ids": [int(token) for token in self.sample.prompt.token_ids()],
            "messages": None if chat is None else list(chat.messages),
            "tools": None if chat is None else list(chat.tools),
            "answers": {name: record.model_dump(include=answered) for name, record in self.records.items()},
        }  # fmt: skip


def asked_sample(run_dir: Path, sample_id: str) -> AskedSample:
    """Finds a sample of a run and builds its full prompt again. A beginning of the id is enough if it is unique.

    Raises:
        RunDirectoryError: no such sample, or its prompt cannot be built again; the message says what changed.
    """
    run = RunDirectory(run_dir)
    manifest = run.read_manifest()
    found = [row for row in run.samples() if row.sample_id.startswith(sample_id)]
    if len(found) != 1:
        what = f"{len(found)} sample ids begin with it" if found else "no sample of this run begins with it"
        raise RunDirectoryError(f"{run_dir}: {sample_id!r}: {what}; use a sample id from the report or samples.jsonl")
    row = found[0]
    sample, text = rebuild_prompt(manifest, row)
    records = {
        name: record for name in manifest.variants for record in run.records(name) if record.sample_id == row.sample_id
    }
    return AskedSample(row, sample, text, records)


def rebuild_prompt(manifest: Manifest, row: SampleRow) -> tuple[Sample, str]:
    """Builds the prompt of a sample again, and returns the sample with the prompt's text."""
    where = f"sample {row.sample_id}: its prompt cannot be built again"
    try:
        config = _config(manifest, row)
        tasks = read_tasks(config)
        prompts = read_prompts(config, config.model, tasks)
        known = manifest.inputs.get("tokenizer")
        if known is not None and prompts.format.tokenizer_sha256 != known:
            raise RunDirectoryError(f"{where}: the tokenizer of {config.model} differs from the run's")
        planned = grown_cells(plan_cells(config, tasks, manifest.questions_per_haystack), manifest.growth)
        cells = [cell for cell in planned if cell.context_length == row.context_length]
        samples = [*generated_samples(cells, tasks, prompts), *fixed_samples(tasks, prompts)]
        sample = next((sample for sample in samples if sample.sample_id == row.sample_id), None)
        if sample is None:
            raise RunDirectoryError(
                f"{where}: this version of kveval and these texts make different samples of {row.task}"
            )
    except RunDirectoryError:
        raise
    except KvevalError as error:
        raise RunDirectoryError(f"{where}: {error}") from error
    if sample.prompt.sha256() != row.prompt_sha256:
        raise RunDirectoryError(f"{where}: prompt_sha256 differs from the run's")
    return sample, prompts.format.decode(int(token) for token in sample.prompt.token_ids())


def _config(manifest: Manifest, row: SampleRow) -> SweepConfig:
    """Returns the run's configuration with the row's task only, and the folder where the model was found."""
    config = validate_config(manifest.config, "the manifest's config")
    found = manifest.variants[manifest.baseline].spec.get("model")
    path = Path(found) if isinstance(found, str) and Path(found).is_dir() else read_model(config.model).path
    generated = [task for task in config.tasks if not task.has_fixed_prompts]
    tasks = [task for task in generated if task.name.removeprefix(PREFIX) == row.task]
    # The name of an lm-eval task may be known only after it is loaded.
    tasks = tasks or [task for task in config.tasks if task.has_fixed_prompts]
    return config.model_copy(update={"model": path, "tasks": tasks})
