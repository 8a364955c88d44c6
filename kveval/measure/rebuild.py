"""The full prompt of a sample of a run: built again from the run's configuration, and held against its hash.

Needs the model's tokenizer and the texts, and no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import KvevalError, RunDirectoryError
from kveval.measure.plan.fixed_prompts import load_fixed_prompt_tasks
from kveval.measure.plan.plan import cells_of, samples_of_cell
from kveval.measure.plan.route import choose_route, server_template
from kveval.models.checkpoint import read_model
from kveval.run.manifest import Manifest
from kveval.run.samples import SampleRow
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import fixed_prompt_samples
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Sample


@dataclass(frozen=True, slots=True)
class Asked:
    """
    Attributes:
        text: all tokens of the prompt as text, special ones written out: byte for byte what the model read.
    """

    sample: Sample
    text: str


def rebuild_prompt(manifest: Manifest, row: SampleRow) -> Asked:
    """
    Raises:
        RunDirectoryError: what decides the prompt is gone or is not what the run was made with; the message says what.
    """
    where = f"sample {row.sample_id}: its prompt cannot be built again"
    try:
        config = _config(manifest)
        prompt_format = PromptFormat.load(config.model, config.prompt_style, config.chat_template_kwargs)
        known = manifest.inputs.get("tokenizer")
        if known is not None and prompt_format.tokenizer_sha256 != known:
            raise RunDirectoryError(f"{where}: {config.model} has another tokenizer than the run was made with")
        for sample in _candidates(config, row, prompt_format):
            if sample.sample_id == row.sample_id:
                break
        else:
            raise RunDirectoryError(
                f"{where}: this kveval and these texts make other samples of {row.task} than the run has"
            )
    except RunDirectoryError:
        raise
    except KvevalError as error:
        raise RunDirectoryError(f"{where}: {error}") from error
    if sample.prompt.sha256() != row.prompt_sha256:
        raise RunDirectoryError(f"{where}: prompt_sha256 differs from the one of the run")
    return Asked(sample, prompt_format.decode(int(token) for token in sample.prompt.token_ids()))


def _config(manifest: Manifest) -> SweepConfig:
    """The run's, with the folder the model was found in."""
    config = validate_config(manifest.config, "the manifest's config")
    found = manifest.variants[manifest.baseline].spec.get("model")
    path = Path(found) if isinstance(found, str) and Path(found).is_dir() else read_model(config.model).path
    return config.model_copy(update={"model": path})


def _candidates(config: SweepConfig, row: SampleRow, prompt_format: PromptFormat) -> Iterator[Sample]:
    """Samples of the row's cell, or of its task where prompts are given."""
    chat = ChatTemplate(config.model, config.chat_template_kwargs, server_template(config))
    for wanted in config.tasks:
        if wanted.has_fixed_prompts or wanted.name != row.task:
            continue
        task = load_tasks([wanted.name], config.include_path)[wanted.name]
        route = choose_route(task, config, chat)
        routes = {} if route is None else {task.name: route}
        for cell in cells_of(config, wanted, task):
            if cell.context_length == row.context_length:
                yield from samples_of_cell(task, cell, prompt_format, chat, routes)
        return
    given = config.model_copy(update={"tasks": [wanted for wanted in config.tasks if wanted.has_fixed_prompts]})
    for one in load_fixed_prompt_tasks(given):
        if one.task.name == row.task:
            yield from fixed_prompt_samples(one, prompt_format, chat)
