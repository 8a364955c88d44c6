"""Lists tasks, builds their prompts, and scores answers, without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from kveval.config.task import HaystackStyle
from kveval.config.values import absolute
from kveval.errors import UsageError, nearest
from kveval.models.checkpoint import read_model
from kveval.run.records import Outcome
from kveval.tasks import loader, task_files
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.outcome import classify
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.reasoning import answer_in
from kveval.tasks.task import Cell, Task
from kveval.tasks.task_files import TaskInfo


@dataclass(frozen=True, slots=True)
class ExamplePrompt:
    """One real prompt of a task.

    Attributes:
        text: the whole prompt.
        sample: the question, its answer (``sample.doc``) and the prompt's token ids.
        tokenizer: name of the tokenizer that counted.
    """

    text: str
    sample: Sample
    tokenizer: str


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """What a task's scorer says about one answer.

    Attributes:
        outcome: one word, such as ``correct``, ``wrong`` or ``abstained``.
        metrics: numbers from 0 to 1; ``metrics["score"]`` decides.
    """

    outcome: Outcome
    metrics: Mapping[str, float]


def list_tasks(include_path: str | Path | None = None) -> list[TaskInfo]:
    """Lists every task that ships with kveval, and those of your own folder: ``kveval tasks``.

    Args:
        include_path: a folder of task files. Their code is not run.

    Returns:
        Name, family, version, description and file of each task, by family and name.

    Raises:
        ConfigError: a file cannot be read, or there is no such folder.

    Example:
        >>> [task.name for task in kveval.list_tasks() if task.family == "coverage"]
        ['coverage_list', 'coverage_summary']
    """
    return task_files.list_tasks(_folder(include_path))


def load_task(name: str, include_path: str | Path | None = None) -> Task:
    """Loads one task with its builder and its scorer.

    Args:
        name: its name, as `list_tasks` gives it.
        include_path: a folder of task files. The code they name is imported and run, so use only what you trust.

    Returns:
        The task: how its prompts are built, what its output may cost, and ``task.score(doc, text)``.

    Raises:
        ConfigError: the name is unknown, or the file cannot be loaded.

    Example:
        >>> kveval.load_task("niah_single").max_output_tokens
        48
    """
    return loader.load_tasks([name], _folder(include_path))[name]


def example_prompts(
    task: str | Task,
    *,
    context_length: int = 2048,
    count: int = 10,
    model: str | Path | None = None,
    haystack: str = "essays",
    seed: int = 0,
    include_path: str | Path | None = None,
) -> list[ExamplePrompt]:
    """Builds prompts of a task as a sweep asks them: ``kveval tasks show`` prints the first.

    Args:
        task: a task or its name.
        context_length: tokens of a whole prompt.
        count: how many prompts. They share one haystack.
        model: a checkpoint folder whose tokenizer counts. Default: a stand-in of about four characters per token.
        haystack: the filler text: ``essays``, ``wikipedia`` or ``generated``. ``generated`` needs no download.
        seed: decides every choice. Equal arguments build equal prompts.
        include_path: a folder of task files, if `task` is a name from there.

    Returns:
        The prompts with their samples.

    Raises:
        UsageError: a value is not allowed, or the task does not fit the length.
        DataError: the filler text could not be fetched.

    Example:
        >>> prompt = kveval.example_prompts("niah_single", context_length=512, haystack="generated")[0]
        >>> prompt.sample.doc["answers"][0] in prompt.text
        True
    """
    styles: Mapping[str, HaystackStyle] = {style: style for style in get_args(HaystackStyle)}
    if haystack not in styles:
        raise UsageError(f"haystack: {haystack!r} is not a haystack style; {nearest(haystack, styles)}")
    loaded = load_task(task, include_path) if isinstance(task, str) else task
    prompt_format = PromptFormat.load(read_model(Path(model)).path) if model else PromptFormat.stand_in()
    cell = Cell(loaded.name, context_length, count, count, seed, styles[haystack])
    return [
        ExamplePrompt(prompt_format.decode(sample.prompt.token_ids()), sample, prompt_format.name)
        for sample in build_samples(loaded, cell, prompt_format)
    ]


def score_answer(task: str | Task, doc: Mapping[str, Any], text: str) -> ScoredAnswer:
    """Runs the scorer of a task on one answer.

    Args:
        task: a task or its name.
        doc: the document of the sample, ``sample.doc``, or ``doc`` in a run's table of samples.
        text: what the model wrote.

    Returns:
        The outcome in one word, and the metrics.

    Raises:
        ConfigError: the name is unknown, or the scorer fails on this answer.

    Example:
        >>> doc = {"answers": ["7301954"], "distractors": ["8120443"], "absent": False}
        >>> kveval.score_answer("niah_single", doc, "It is locker 7301954.").outcome
        'correct'
    """
    text = answer_in(text)
    metrics = (load_task(task) if isinstance(task, str) else task).score(doc, text)
    return ScoredAnswer(classify(text, "stop", metrics, doc), metrics)


def _folder(include_path: str | Path | None) -> Path | None:
    return None if include_path is None else absolute(Path(include_path))
