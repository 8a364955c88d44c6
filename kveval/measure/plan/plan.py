"""From configuration to cells, samples and launches; checks everything that needs no running engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.config.load import LoadConfig
from kveval.config.sweep import SweepConfig
from kveval.config.task import TaskConfig
from kveval.engines.client.access import Access
from kveval.engines.installation import Installation
from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.engines.speculation import check_speculation
from kveval.engines.variants import ResolvedVariant, emulated_control, resolve
from kveval.engines.vllm.facts import checkpoint_scales
from kveval.errors import ConfigError, PlanError, nearest
from kveval.measure.plan.fixed_prompts import check_routes, load_fixed_prompt_tasks
from kveval.measure.plan.route import Route, choose_route, server_template
from kveval.measure.schedule import cold_samples, group_by_haystack
from kveval.models.checkpoint import Model, hash_model, read_model
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.chat_haystack import chat_samples
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import check_fits, fixed_prompt_samples
from kveval.tasks.loader import check_scorer, load_tasks
from kveval.tasks.sample import Sample
from kveval.tasks.task import Cell, Task
from kveval.tasks.task_files import hash_task_files, list_tasks, own_tasks
from kveval.tasks.user_code import user_code

# Room above the longest prompt and its output for the smoke questions.
_SLACK_TOKENS = 8
# The smoke questions' plain text, in any tokenizer.
_LEAST_MODEL_LEN = 512

_OWN_FLAGS = {
    "model": "the key model, or a variant's model",
    "port": "engine.port",
    "host": "none, the engine listens on this machine only",
    "served-model-name": "none",
    "api-key": "none, the engine listens on this machine only",
    "hf-token": "HF_TOKEN in engine.env",
    "kv-cache-dtype": "kv_cache_dtype of a variant",
    "speculative-config": "speculative_config of a variant",
    "spec-method": "speculative_config of a variant",
    "spec-model": "speculative_config of a variant",
    "spec-tokens": "speculative_config of a variant",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided before an engine starts.

    Attributes:
        variants: in launch order: baseline, its A/A run, candidates, controls.
        cells: of generated tasks.
        samples: every sample of the run, the same for all variants.
        aa_sample_ids: what the A/A run asks; whole haystacks.
        max_model_len: longest prompt plus output, in tokens; no less than the smoke questions need.
        routes: of tasks that can be asked through the chat endpoint.
        inputs: sha256 by input, compared on resume.
    """

    config: SweepConfig
    installation: Installation
    model: Model
    models: dict[str, Model]
    prompt_format: PromptFormat
    tasks: dict[str, Task]
    cells: list[Cell]
    samples: list[Sample]
    variants: list[ResolvedVariant]
    aa_sample_ids: frozenset[str]
    max_model_len: int
    routes: dict[str, Route] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    def samples_of(self, variant: ResolvedVariant) -> list[Sample]:
        if variant.role == "aa":
            return [sample for sample in self.samples if sample.sample_id in self.aa_sample_ids]
        return self.samples

    @property
    def cold_samples(self) -> list[Sample]:
        """Asked again without the prefix cache, of every variant that is no control."""
        return cold_samples(self.samples, self.config.cold_check, self.config.seed)


def make_plan(config: SweepConfig, installation: Installation) -> Plan:
    """Raises UsageError: one line naming the key, the value and what is allowed."""
    model = read_model(config.model)
    variants = plan_variants(config, installation)
    models = {
        variant.name: read_model(variant.config.model, f"variants.{variant.name}.model")
        if variant.config.model
        else model
        for variant in variants
    }
    _check_controls(variants, model)
    # First: a wrong row should not wait for what takes longer to read.
    given = load_fixed_prompt_tasks(config)
    generated = [wanted for wanted in config.tasks if not wanted.has_fixed_prompts]
    asked = load_tasks([task.name for task in generated], config.include_path)
    tasks = {task.name: task for task in (*asked.values(), *(one.task for one in given))}
    cells = [cell for wanted in generated for cell in cells_of(config, wanted, asked[wanted.name])]
    check_flags(config)
    _check_keys(config)
    _check_margins(config, tasks)
    _check_layers(variants, models)
    _check_window(config, variants, models, tasks, cells)
    prompt_format = PromptFormat.load(model.path, config.prompt_style, config.chat_template_kwargs)
    _check_same_prompts(models, model, prompt_format, config)
    chat = ChatTemplate(model.path, config.chat_template_kwargs, server_template(config))
    routes = {name: route for name, task in tasks.items() if (route := choose_route(task, config, chat)) is not None}
    samples = [
        sample for cell in cells for sample in samples_of_cell(tasks[cell.task], cell, prompt_format, chat, routes)
    ]
    for task in asked.values():
        own = [sample for sample in samples if sample.task == task.name]
        check_scorer(task, own[0], own[-1])
    check_routes(given, routes)
    asked_as_given = [sample for one in given for sample in fixed_prompt_samples(one, prompt_format, chat)]
    limits = list(windows(config, variants, models))
    for whose, window in limits:
        check_fits(asked_as_given, window - _SLACK_TOKENS, whose, least_output_tokens=OUTPUT_TOKENS)
    samples += asked_as_given
    _check_distinct(samples)
    longest = max(len(sample.prompt) + max(sample.max_output_tokens, OUTPUT_TOKENS) for sample in samples)
    longest = max(longest, config.load.longest_tokens if config.load else 0)
    least = min([_LEAST_MODEL_LEN, *(window for _, window in limits)])
    return Plan(
        config=config,
        installation=installation,
        model=model,
        models=models,
        prompt_format=prompt_format,
        tasks=tasks,
        cells=cells,
        samples=samples,
        variants=variants,
        aa_sample_ids=frozenset(_aa_share(samples, config.aa_share)),
        max_model_len=max(longest + _SLACK_TOKENS, least),
        routes=routes,
    )


def samples_of_cell(
    task: Task, cell: Cell, prompt_format: PromptFormat, chat: ChatTemplate, routes: Mapping[str, Route]
) -> list[Sample]:
    """Every sample of a cell, asked the way `routes` says."""
    route = routes.get(task.name)
    if route is None or route.form == "text":
        return build_samples(task, cell, prompt_format)
    with user_code(f"task {task.name!r} at context_length {cell.context_length}: its builder"):
        return chat_samples(task, cell, chat)


def plan_variants(config: SweepConfig, installation: Installation) -> list[ResolvedVariant]:
    device = installation.device
    baseline = resolve(config.variant(config.baseline), device, "baseline")
    candidates = [resolve(v, device, "candidate") for v in config.variants if v.name != config.baseline]
    controls = [emulated_control(candidate, baseline) for candidate in candidates if candidate.config.control]
    again = []
    if config.aa_share > 0:
        aa_name = f"{baseline.name}-aa"
        again = [ResolvedVariant(aa_name, baseline.config, baseline.kv_cache_dtype, None, "aa", of=baseline.name)]
    planned = [baseline, *again, *candidates, *controls]
    for variant in planned:
        check_speculation(variant, device)
    names = [variant.name for variant in planned]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"variants: the name {twice!r} is taken by a control run; allowed: another name")
    if any(variant.emulate for variant in planned) and not installation.has_emulation:
        emulated = next(variant.name for variant in planned if variant.emulate)
        raise PlanError(
            f"variants.{emulated}: emulation needs kveval's plugin in the engine's environment; "
            "install kveval there (`pip install --no-deps kveval`)"
        )
    return planned


def cells_of(config: SweepConfig, wanted: TaskConfig, task: Task) -> Iterator[Cell]:
    """The cells a configuration makes of one of its tasks."""
    samples = wanted.samples or config.samples
    for context_length in wanted.context_lengths or config.context_lengths:
        yield Cell(
            task=task.name,
            context_length=context_length,
            samples=samples,
            questions_per_haystack=min(wanted.questions_per_haystack or config.questions_per_haystack, samples),
            seed=config.seed,
            haystack_style=wanted.haystack or config.haystack,
        )


def _check_distinct(samples: list[Sample]) -> None:
    """Records are joined by sample_id: of two equal questions, one answer would stand for both."""
    seen: set[str] = set()
    for sample in samples:
        if sample.sample_id in seen:
            raise ConfigError(
                f"task {sample.task!r} at context_length {sample.context_length}: asks the same question twice, with "
                f"the answers {sample.doc['answers']}; allowed: questions that differ within a haystack"
            )
        seen.add(sample.sample_id)


def _check_controls(variants: list[ResolvedVariant], model: Model) -> None:
    for variant in variants:
        if variant.role == "control" and variant.emulate and variant.emulate.scale and checkpoint_scales(model.path):
            raise PlanError(
                f"variants.{variant.of}: control: emulated rounds at scale {variant.emulate.scale:g}, but {model.path} "
                "has calibrated k/v scales, which the native cache uses; remove `control`"
            )


def check_flags(config: SweepConfig) -> None:
    """Raises PlanError: an engine flag that kveval sets itself."""
    places = {"engine.args": config.engine.args}
    places |= {f"variants.{variant.name}.engine_args": variant.engine_args for variant in config.variants}
    for place, arguments in places.items():
        for name in arguments:
            instead = _OWN_FLAGS.get(name.lstrip("-").replace("_", "-"))
            if instead:
                raise PlanError(f"{place}: {name!r} is set by kveval; allowed: {instead}")


def _check_keys(config: SweepConfig) -> None:
    for variant in config.variants:
        if variant.endpoint is not None:
            variant.endpoint.api_key(f"variants.{variant.name}.endpoint")
            Access(ca_file=variant.endpoint.ca_file).certificates()


def _check_margins(config: SweepConfig, tasks: dict[str, Task]) -> None:
    # A file's margins also hold for tasks that --tasks leaves out tonight.
    known = list_tasks(config.include_path)
    families = sorted({task.family for task in tasks.values()} | {task.family for task in known})
    for family in config.judge.margins:
        if family not in families:
            raise ConfigError(f"judge.margins: there is no task family {family!r}; {nearest(family, families)}")


def _check_layers(variants: list[ResolvedVariant], models: dict[str, Model]) -> None:
    for variant in variants:
        layers = variant.emulate.layers if variant.emulate else None
        count = models[variant.name].text_config.get("num_hidden_layers")
        if layers and isinstance(count, int) and max(layers) >= count:
            raise PlanError(
                f"variants.{variant.name}.emulate.layers: {max(layers)} is not a layer of the model; "
                f"allowed: 0 to {count - 1}"
            )


def _check_window(
    config: SweepConfig,
    variants: list[ResolvedVariant],
    models: dict[str, Model],
    tasks: dict[str, Task],
    cells: list[Cell],
) -> None:
    for whose, window in windows(config, variants, models):
        for cell in cells:
            budget = tasks[cell.task].max_output_tokens
            if cell.context_length + budget + _SLACK_TOKENS > window:
                raise PlanError(
                    f"context_lengths: {cell.context_length} with {budget} output tokens of {cell.task} does not fit "
                    f"{whose} {window}; allowed: {_up_to(window - budget - _SLACK_TOKENS)}"
                )
        if config.load:
            check_load_fits(config.load, whose, window)


def check_load_fits(load: LoadConfig, whose: str, window: int) -> None:
    """Raises PlanError: a prompt under load is longer than the server takes."""
    if load.longest_tokens + _SLACK_TOKENS > window:
        raise PlanError(
            f"load.prompt_lengths: {max(load.prompt_lengths)} with {load.output_tokens} output tokens does not fit "
            f"{whose} {window}; allowed: {_up_to(window - load.output_tokens - _SLACK_TOKENS)}"
        )


def _up_to(room_tokens: int) -> str:
    return f"up to {room_tokens}" if room_tokens > 0 else "none, the outputs alone do not fit"


def windows(
    config: SweepConfig, variants: list[ResolvedVariant], models: dict[str, Model]
) -> Iterator[tuple[str, int]]:
    """(whose, tokens) of every variant with a limit."""
    for variant in variants:
        endpoint = variant.config.endpoint
        flag = flag_tokens(config.engine.args | variant.config.engine_args)
        if endpoint is not None:
            flag = endpoint.declared.max_model_len
        window = flag or models[variant.name].window
        if window is not None:
            yield f"max-model-len of {variant.name}," if flag else "the model's window of", window


def flag_tokens(arguments: Mapping[str, Any]) -> int | None:
    """What ``max-model-len`` says among engine flags."""
    flag = arguments.get("max-model-len", arguments.get("max_model_len"))
    return int(flag) if str(flag).isdigit() else None


def _check_same_prompts(
    models: dict[str, Model], model: Model, prompt_format: PromptFormat, config: SweepConfig
) -> None:
    for name, other in models.items():
        if other.path == model.path:
            continue
        theirs = PromptFormat.load(other.path, config.prompt_style, config.chat_template_kwargs)
        if theirs.tokenizer_sha256 != prompt_format.tokenizer_sha256:
            raise PlanError(f"variants.{name}.model: its tokenizer differs from the baseline's; allowed: the same one")
        if theirs.chat_template_sha256 != prompt_format.chat_template_sha256:
            raise PlanError(
                f"variants.{name}.model: its chat template differs from the baseline's; allowed: the same one"
            )


def _aa_share(samples: list[Sample], share: float) -> Iterator[str]:
    """Whole haystacks, so that the A/A run shares prefill as the baseline does; the same ones on every machine."""
    groups = sorted(group_by_haystack(samples), key=lambda group: group.haystack_id)
    for group in groups[: max(1, round(share * len(groups)))] if share > 0 else []:
        for sample in group.samples:
            yield sample.sample_id


def hash_models(models: Mapping[str, Model], of_the_sweep: Model) -> dict[str, str]:
    """sha256 of the files of every variant's model."""
    inputs: dict[str, str] = {}
    for path in sorted({model.path for model in models.values()}):
        users = [name for name, model in models.items() if model.path == path]
        label = "model" if path == of_the_sweep.path else f"model of {users[0]}"
        inputs |= {f"{label}/{name}": digest for name, digest in hash_model(read_model(path)).items()}
    return inputs


def hash_inputs(plan: Plan) -> dict[str, str]:
    """sha256 of everything outside the configuration that decides prompts, answers or scores."""
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
