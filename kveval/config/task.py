"""What is asked: one entry of the configuration's ``tasks``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kveval.config.values import NAME, AbsolutePath, ContextLength, NoBoolean, StrictModel, expanded, is_there

LM_EVAL = "lm_eval:"
"""Before the name of one of lm-eval's tasks, or the path of its YAML file."""

AUTO: Literal["auto"] = "auto"
HaystackStyle = Literal["essays", "wikipedia", "generated"]
# Of one cell. More is a typing error that would fill the memory with prompts before anything is said.
_MOST_SAMPLES = 100_000
_MOST_OUTPUT_TOKENS = 1_000_000
SampleCount = Annotated[int, NoBoolean, Field(gt=0, le=_MOST_SAMPLES)]
QuestionsPerHaystack = Annotated[int, NoBoolean, Field(gt=0)] | Literal["auto"]

_GENERATED_ONLY = ("questions_per_haystack", "haystack", "context_lengths")


class TaskConfig(StrictModel):
    """A task with settings of its own; what is None comes from the sweep.

    Attributes:
        name: of a kveval task, ``lm_eval:NAME``, or any name for the prompts of `file`; by default the file's stem.
        file: JSON Lines with the user's own prompts.
        samples: per context length. Of fixed prompts, so many from the beginning.
        output_tokens: the output budget, in place of the task's own. Thinking needs more. It is part of every sample's
            id, so other budgets are other samples.
    """

    name: str
    file: AbsolutePath | None = None
    samples: SampleCount | None = None
    questions_per_haystack: QuestionsPerHaystack | None = None
    haystack: HaystackStyle | None = None
    context_lengths: list[ContextLength] | None = None
    output_tokens: Annotated[int, NoBoolean, Field(gt=0, le=_MOST_OUTPUT_TOKENS)] | None = None

    @property
    def has_fixed_prompts(self) -> bool:
        """Whether a file or an lm-eval task holds its prompts, so that kveval assembles no haystacks for it."""
        return self.file is not None or self.name.startswith(LM_EVAL)

    @model_validator(mode="after")
    def _fits_its_prompts(self) -> TaskConfig:
        if self.file is not None and not NAME.fullmatch(self.name):
            raise ValueError(
                f"name: {self.name!r} of the prompts in {self.file} is not a task name; "
                "use letters, digits, '.', '_' and '-'"
            )
        extra = next(
            (key for key in _GENERATED_ONLY if self.has_fixed_prompts and getattr(self, key) is not None), None
        )
        if extra:
            raise ValueError(f"{extra}: {self.name} has fixed prompts, which decide it; leave {extra} out")
        return self


def expand_task(value: Any) -> Any:
    """Returns a task with its name and file written out. Raises ValueError: it has neither."""
    if isinstance(value, str):
        return expand_task({"file": value}) if value.endswith(".jsonl") else {"name": value}
    if isinstance(value, Mapping) and not value.get("name"):
        if isinstance(value.get("file"), str | Path):
            return {**value, "name": Path(value["file"]).stem}
        if not value.keys() - set(TaskConfig.model_fields):
            raise ValueError("name, file: neither given; use the name of a task, or a file of prompts")
    return value


def task_beside(task: Any, folder: Path) -> Any:
    """Returns a task with the path of its file from `folder`, where the configuration is, if the file is there."""

    def found(text: str) -> str:
        beside = folder / expanded(Path(text))
        return str(beside) if is_there(beside) and beside.is_file() else text

    if isinstance(task, str) and task.endswith(".jsonl"):
        return {"file": found(task)}
    if isinstance(task, str) and task.startswith(LM_EVAL):
        return LM_EVAL + found(task.removeprefix(LM_EVAL))
    if isinstance(task, Mapping) and isinstance(task.get("file"), str):
        return {**task, "file": found(task["file"])}
    if isinstance(task, Mapping) and isinstance(task.get("name"), str):
        return {**task, "name": task_beside(task["name"], folder)}
    return task
