"""Hashes of everything outside the configuration that decides prompts, answers or scores."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from kveval.measure.plan.plan import Plan
from kveval.measure.plan.route import server_template
from kveval.models.checkpoint import Model, hash_model, read_model
from kveval.tasks.task_files import hash_task_files, own_tasks


def hash_models(models: Mapping[str, Model], shared: Model) -> dict[str, str]:
    """Returns the sha256 of every file of every variant's checkpoint.

    Args:
        models: by variant.
        shared: the configuration's own ``model``; the labels of its files name no variant.
    """
    inputs: dict[str, str] = {}
    for path in sorted({model.path for model in models.values()}):
        users = [name for name, model in models.items() if model.path == path]
        label = "model" if path == shared.path else f"model of {users[0]}"
        inputs |= {f"{label}/{name}": digest for name, digest in hash_model(read_model(path)).items()}
    return inputs


def hash_inputs(plan: Plan) -> dict[str, str]:
    """Returns the sha256 of every input by its label. A resumed run must have the same."""
    inputs = hash_models(plan.models, plan.model)
    inputs["tokenizer"] = plan.prompt_format.tokenizer_sha256
    if plan.prompt_format.chat_template_sha256:
        inputs["chat template"] = plan.prompt_format.chat_template_sha256
    template = server_template(plan.config)
    if template is not None:
        inputs["chat template of the engine"] = hashlib.sha256(template.encode()).hexdigest()
    for name, task in sorted(plan.tasks.items()):
        inputs[f"task/{name}"] = hashlib.sha256(repr((task.version, task.metadata)).encode()).hexdigest()
    if plan.config.include_path is not None:
        for own in own_tasks(plan.config.include_path):
            if own.name in plan.tasks:
                inputs[f"task/{own.name}/files"] = hash_task_files(own.path)
    return inputs
