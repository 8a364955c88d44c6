"""What is asked: one entry of the configuration's ``tasks``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LENGTH = re.compile(r"(\d+)([kKmM]?)")
_MULTIPLES = {"": 1, "k": 1024, "m": 1024 * 1024}


LM_EVAL = "lm_eval:"
"""Before the name of one of lm-eval's own tasks, or the path of its YAML file."""

LONGEST_CONTEXT_TOKENS = 16 * 1024 * 1024
MOST_SAMPLES = 100_000
"""Of one cell. More is a slip of the keyboard, which would fill the memory with prompts before anything is said."""

_GENERATED_ONLY = ("questions_per_haystack", "haystack", "context_lengths")


def parse_length(value: Any) -> int:
    """``4096``, ``"4096"``, ``"4k"`` or ``"1m"`` to tokens; k = 1024.

    Raises:
        ValueError: anything else.
    """
    match = _LENGTH.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    tokens = int(match[1]) * _MULTIPLES[match[2].lower()] if match else 0
    if tokens <= 0:
        raise ValueError(f"{value!r} is not a context length; allowed: tokens such as 4096, 4k (= 4096) or 1m")
    if tokens > LONGEST_CONTEXT_TOKENS:
        raise ValueError(f"{value!r} is longer than any model reads; allowed: up to 16m")
    return tokens


def no_boolean(value: Any) -> Any:
    """YAML's ``yes`` and ``true`` would count as 1. Raises ValueError: `value` is one of them."""
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


def absolute(path: Path) -> Path:
    """A path that means the same from every folder, as what a run keeps must."""
    return path.expanduser().absolute()


class TaskConfig(BaseModel):
    """A task with settings of its own; what is None comes from the sweep.

    Attributes:
        name: of a kveval task, or ``lm_eval:NAME``; of a file's rows, its stem by default.
        file: one's own prompts, JSON Lines.
        samples: per context length; of given prompts (a file's, an lm-eval task's) the first so many.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    file: Annotated[Path, AfterValidator(absolute)] | None = None
    samples: Annotated[int, BeforeValidator(no_boolean), Field(gt=0, le=MOST_SAMPLES)] | None = None
    questions_per_haystack: Annotated[int, Field(gt=0)] | None = None
    haystack: Literal["essays", "wikipedia", "generated"] | None = None
    context_lengths: list[Annotated[int, BeforeValidator(parse_length)]] | None = None

    @property
    def has_fixed_prompts(self) -> bool:
        """Its prompts are what they are: no haystacks, no context lengths to choose."""
        return self.file is not None or self.name.startswith(LM_EVAL)

    @model_validator(mode="after")
    def _lengths_are_what_they_are(self) -> TaskConfig:
        if self.file is not None and not NAME.fullmatch(self.name):
            raise ValueError(
                f"name {self.name!r} of the prompts in {self.file}; "
                "allowed: a name of letters, digits, '.', '_' and '-'"
            )
        extra = next(
            (key for key in _GENERATED_ONLY if self.has_fixed_prompts and getattr(self, key) is not None), None
        )
        if extra:
            raise ValueError(f"{extra}: {self.name} has prompts of its own; allowed beside them: name, samples")
        return self


def expand_task(value: Any) -> Any:
    """A bare name or file, or a file without a name, written out. Raises ValueError: neither name nor file."""
    if isinstance(value, str):
        return expand_task({"file": value}) if value.endswith(".jsonl") else {"name": value}
    if isinstance(value, Mapping) and not value.get("name"):
        if isinstance(value.get("file"), str | Path):
            return {**value, "name": Path(value["file"]).stem}
        if not value.keys() - set(TaskConfig.model_fields):
            raise ValueError("name, file: neither given; allowed: a task's name, or a file of prompts")
    return value


def task_beside(task: Any, folder: Path) -> Any:
    """A task with its file as seen from `folder`, where the configuration is, if it lies there."""

    def found(text: str) -> str:
        beside = folder / Path(text).expanduser()
        return str(beside) if beside.is_file() else text

    if isinstance(task, str) and task.endswith(".jsonl"):
        return {"file": found(task)}
    if isinstance(task, str) and task.startswith(LM_EVAL):
        return LM_EVAL + found(task.removeprefix(LM_EVAL))
    if isinstance(task, Mapping) and isinstance(task.get("file"), str):
        return {**task, "file": found(task["file"])}
    if isinstance(task, Mapping) and isinstance(task.get("name"), str):
        return {**task, "name": task_beside(task["name"], folder)}
    return task
