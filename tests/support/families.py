"""Samples of the shipped tasks, built with the stand-in tokenizer, and their text."""

from __future__ import annotations

from kveval.tasks.assembly.haystack import build_samples, frame_texts
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import load_tasks
from kveval.tasks.sample import Sample
from kveval.tasks.task import Cell, HaystackStyle, Task
from kveval.tasks.task_files import list_tasks

STAND_IN = PromptFormat.stand_in()


class ShippedTasks(dict[str, Task]):
    """Loads a task by name when it is first asked for."""

    def __missing__(self, name: str) -> Task:
        self[name] = load_tasks([name])[name]
        return self[name]


def names_of(family: str) -> list[str]:
    return [info.name for info in list_tasks() if info.family == family]


def build(
    task: Task,
    context_length: int,
    samples: int = 20,
    questions: int = 10,
    seed: int = 1,
    style: HaystackStyle = "generated",
    prompt_format: PromptFormat = STAND_IN,
) -> list[Sample]:
    return build_samples(task, Cell(task.name, context_length, samples, questions, seed, style), prompt_format)


def text_of(sample: Sample) -> str:
    """Returns the whole prompt."""
    return STAND_IN.decode(sample.prompt.token_ids())


def context_of(task: Task, sample: Sample, prompt_format: PromptFormat = STAND_IN) -> str:
    """Returns the prompt without the task's text and the template's before and after the context."""
    ids = sample.prompt.token_ids()
    text = prompt_format.decode(ids[len(prompt_format.prefix_ids) : len(ids) - len(prompt_format.suffix_ids)])
    head, foot = frame_texts(task, prompt_format, sample.doc)
    assert text.startswith(head)
    assert text.endswith(foot)
    return text[len(head) : len(text) - len(foot)]
