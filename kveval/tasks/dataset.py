"""The dataset of a task as lm-eval asks for it, so that plain lm-eval runs kveval's tasks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.tasks.assembly.haystack import build_samples, frame_texts
from kveval.tasks.assembly.planned import plan_haystack
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.builders.base import Builder
from kveval.tasks.loader import PREVIEW, task_from_yaml
from kveval.tasks.task import Cell

DEFAULT_CONTEXT_LENGTH = 4096
DEFAULT_SAMPLES = 100


class HaystackDataset:
    """A builder as lm-eval's ``custom_dataset``.

    Called with a task's metadata it returns ``{"test": datasets.Dataset}``. A caller may set in the metadata:
    ``tokenizer`` or ``pretrained`` (a model directory; without one, the stand-in tokenizer is used),
    ``context_length`` or ``context_lengths`` (a list), ``samples`` per length, ``questions_per_haystack``, ``seed``
    and ``haystack`` (the style).
    """

    def __init__(self, builder_class: type[Builder]) -> None:
        if not issubclass(builder_class, Builder):
            raise ConfigError(f"{builder_class.__name__} is not a Builder; use a subclass of Builder or ChatBuilder")
        self._builder_class = builder_class

    def builder(self, metadata: Mapping[str, Any]) -> Builder:
        """Makes the task's builder from its YAML's metadata."""
        return self._builder_class.from_metadata(metadata)

    def __call__(self, **metadata: Any) -> dict[str, Any]:
        import datasets

        rows = self._preview(metadata) if metadata.get(PREVIEW) else self._rows(metadata)
        return {"test": datasets.Dataset.from_list(rows)}

    def _preview(self, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
        rng = random.Random(0)  # noqa: S311
        question = plan_haystack("its builder", self.builder(metadata), range(1), 0.0, rng).questions[0]
        return [{**question.fields, "context": "", "answers": list(question.answers)}]

    def _rows(self, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
        origin = Path(str(metadata.get("config_source")))
        if not origin.is_file():
            raise ConfigError(f"metadata.config_source={origin} is not a file; use the path of the task's YAML file")
        task = task_from_yaml(origin, metadata)
        model = metadata.get("tokenizer") or metadata.get("pretrained")
        format_ = PromptFormat.load(Path(model), "completion") if model else PromptFormat.stand_in()
        lengths = metadata.get("context_lengths") or [metadata.get("context_length", DEFAULT_CONTEXT_LENGTH)]
        rows = []
        for length in lengths:
            cell = Cell(
                task=task.name,
                context_length=int(length),
                samples=int(metadata.get("samples", DEFAULT_SAMPLES)),
                questions_per_haystack=int(metadata.get("questions_per_haystack", 10)),
                seed=int(metadata.get("seed", 0)),
                haystack_style=metadata.get("haystack", "generated"),
            )
            for sample in build_samples(task, cell, format_):
                text = format_.decode(sample.prompt.token_ids()[len(format_.prefix_ids) :])
                head, foot = frame_texts(task, format_, sample.doc)
                context = text[len(head) : len(text) - len(foot)]
                rows.append({**sample.doc, "context": context, "context_length": cell.context_length})
        return rows
