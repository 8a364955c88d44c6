"""The sweep configuration: YAML and flags become one validated object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kveval.config.emulation import EmulationConfig, emulation_of
from kveval.config.endpoint import DeclaredConfig, EndpointConfig, check_attached, expand_attached, expand_endpoint
from kveval.config.environment import Environment
from kveval.config.judge import Policy
from kveval.config.load import LoadConfig
from kveval.config.messages import key_of, reason_of
from kveval.config.speculation import expand_speculative
from kveval.config.task import (
    MOST_SAMPLES,
    NAME,
    TaskConfig,
    absolute,
    expand_task,
    no_boolean,
    parse_length,
    task_beside,
)
from kveval.config.yaml_file import read_yaml
from kveval.errors import ConfigError, nearest
from kveval.formats.cache_dtype import CacheDtype
from kveval.formats.registry import CACHE_DTYPES, is_unquantized
from kveval.resources import presets

_EMULATED_ON = "bfloat16"


def _shorthand(entry: CacheDtype, *, is_alias: bool) -> dict[str, Any]:
    if entry.is_in_vllm:
        return {"kv_cache_dtype": entry.name} | ({"emulate_where_missing": True} if is_alias and entry.rounding else {})
    return {"kv_cache_dtype": _EMULATED_ON, "emulate": emulation_of(entry.name)}


SHORTHANDS: dict[str, dict[str, Any]] = {
    name: _shorthand(entry, is_alias=name != entry.name)
    for entry in CACHE_DTYPES.values()
    if entry.is_in_vllm or entry.rounding
    for name in (entry.name, *entry.aliases)
}
"""Variants by name: every cache dtype that can be launched or emulated, in full and by its aliases."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VariantConfig(_Model):
    """One engine setting under test.

    Attributes:
        engine_args: further ``vllm serve`` flags, ``{"max-num-seqs": 8}``; true is a bare flag, false ``--no-...``.
        model: another checkpoint than the sweep's, such as one with calibrated scales.
        emulate: what kveval's plugin rounds K and V to.
        emulate_where_missing: emulate `kv_cache_dtype` on a device whose engine lacks it.
        control: ``emulated`` adds this variant's emulated control on the baseline's kernel.
        speculative_config: speculative decoding, as vLLM's flag of this name takes it.
        endpoint: a server that already runs, in place of one to launch; `kv_cache_dtype` is then what it was started
            with, by its own engine's name.
    """

    name: str
    endpoint: Annotated[EndpointConfig | None, BeforeValidator(expand_endpoint)] = None
    kv_cache_dtype: str
    engine_args: dict[str, str | int | float | bool | None] = {}
    env: Environment = {}
    model: Path | None = None
    emulate: EmulationConfig | None = None
    emulate_where_missing: bool = False
    control: Literal["emulated"] | None = None
    speculative_config: Annotated[dict[str, Any] | None, BeforeValidator(expand_speculative)] = None

    @field_validator("name")
    @classmethod
    def _file_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a variant name; allowed: letters, digits, '.', '_' and '-'")
        return value

    @field_validator("kv_cache_dtype")
    @classmethod
    def _known_dtype(cls, value: str, info: ValidationInfo) -> str:
        # What the registry does not know may be a dtype of a newer vLLM: planning asks the installed one.
        entry = CACHE_DTYPES.get(value)
        if info.data.get("endpoint") is None and entry is not None and not entry.is_in_vllm:
            raise ValueError(f"vLLM has no cache dtype {value!r}; use bfloat16, or another dtype of your vLLM")
        return value

    @model_validator(mode="after")
    def _launched_or_attached(self) -> VariantConfig:
        launched = ("engine_args", "env", "model", "emulate", "emulate_where_missing", "control",
                    "speculative_config")  # fmt: skip
        given = next((key for key in launched if getattr(self, key)), None)
        if self.endpoint is not None and given:
            raise ValueError(f"{given}: of a server that kveval launches; allowed: leave it out, or leave out endpoint")
        return self

    @property
    def is_quantized(self) -> bool:
        return self.emulate is not None or not is_unquantized(self.kv_cache_dtype)


def _expand_variant(value: Any) -> Any:
    if isinstance(value, VariantConfig):
        return value
    if isinstance(value, str):
        if value not in SHORTHANDS:
            raise ValueError(
                f"{value!r} is not a variant; {nearest(value, SHORTHANDS)}. For a cache dtype that only your vLLM "
                f"knows, use {{name: NAME, kv_cache_dtype: {value}}}"
            )
        return {"name": value, **SHORTHANDS[value]}
    if isinstance(value, Mapping) and value.get("endpoint") is not None:
        return expand_attached(value)
    if isinstance(value, Mapping) and "kv_cache_dtype" not in value and str(value.get("name")) in SHORTHANDS:
        return {**SHORTHANDS[str(value["name"])], **value}
    if isinstance(value, Mapping) and "kv_cache_dtype" not in value and "emulate" in value:
        return {"kv_cache_dtype": _EMULATED_ON, **value}
    if isinstance(value, Mapping) and str(value.get("kv_cache_dtype")) in SHORTHANDS:
        return {**value, **SHORTHANDS[str(value["kv_cache_dtype"])]}
    return value


class EngineConfig(_Model):
    """How the engine is launched.

    Attributes:
        name: an engine that `kveval.engines.registry` lists; None = vllm.
        python: interpreter of the environment vLLM lives in; None = the one running kveval.
        command: full command in place of ``vllm serve``, before kveval's own flags.
        args: ``vllm serve`` flags for every variant.
        port: None = a free one.
        kv_cache_gib: cache memory on CPU (``VLLM_CPU_KVCACHE_SPACE``); GPU engines take theirs from `args`.
        startup_timeout_s: from launch to a healthy server.
    """

    name: str | None = None
    python: Path | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    args: dict[str, str | int | float | bool | None] = {}
    env: Environment = {}
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    kv_cache_gib: Annotated[int, Field(gt=0)] = 2
    startup_timeout_s: Annotated[float, Field(gt=0)] = 900.0


class RequestsConfig(_Model):
    """How the engine is asked.

    Attributes:
        timeout_s: one request, from sending to its last token.
        max_attempts: requests sent for one sample before it becomes an ``engine_error``.
        max_in_flight: requests running at once, besides the bound by KV capacity.
        logprobs: top alternatives recorded per output token; 0 records none.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_attempts: Annotated[int, Field(gt=0, le=10)] = 3
    max_in_flight: Annotated[int, Field(gt=0)] = 32
    logprobs: Annotated[int, Field(ge=0, le=20)] = 20


class SweepConfig(_Model):
    """Everything a sweep is decided by.

    Attributes:
        context_lengths: may be left out where every task has prompts or lengths of its own.
        samples: per cell.
        questions_per_haystack: samples that share one context and its prefill.
        aa_share: share of the samples the baseline answers a second time.
        accept_findings: codes of error findings under which a variant is measured all the same.
        cold_check: samples asked once more without the prefix cache: how many, or their share; 0 = none.
        load: also measure every server's speed once its samples are answered; None = not.
        include_path: folder of task files beside those that ship; builders and scorers they name are imported and run.
    """

    model: Path
    variants: list[Annotated[VariantConfig, BeforeValidator(_expand_variant)]] = Field(min_length=1)
    baseline: str = "bf16"
    context_lengths: list[Annotated[int, BeforeValidator(parse_length)]] = []
    tasks: list[Annotated[TaskConfig, BeforeValidator(expand_task)]] = Field(min_length=1)
    include_path: Annotated[Path, AfterValidator(absolute)] | None = None
    samples: Annotated[int, BeforeValidator(no_boolean), Field(gt=0, le=MOST_SAMPLES)] = 20
    questions_per_haystack: Annotated[int, Field(gt=0)] = 10
    haystack: Literal["essays", "wikipedia", "generated"] = "essays"
    prompt_style: Literal["auto", "chat", "completion"] = "auto"
    chat_template_kwargs: dict[str, Any] = {}
    seed: Annotated[int, Field(ge=0)] = 0
    aa_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    cold_check: Annotated[
        Annotated[int, Field(ge=0, strict=True)] | Annotated[float, Field(gt=0, le=1)], BeforeValidator(no_boolean)
    ] = 10
    accept_findings: list[str] = []
    engine: EngineConfig = EngineConfig()
    requests: RequestsConfig = RequestsConfig()
    judge: Policy = Policy()
    load: LoadConfig | None = None
    out: Path | None = None

    @model_validator(mode="after")
    def _consistent(self) -> SweepConfig:
        names = [variant.name for variant in self.variants]
        for kind, values in (
            ("variants", names),
            ("tasks", [task.name for task in self.tasks]),
            ("context_lengths", [str(length) for length in self.context_lengths]),
        ):
            twice = [value for value, times in Counter(values).items() if times > 1]
            if twice:
                raise ValueError(f"{kind}: {twice[0]} is listed twice; allowed: every one once")
        if not self.context_lengths and any(
            not (task.has_fixed_prompts or task.context_lengths) for task in self.tasks
        ):
            raise ValueError("context_lengths: required, not given; allowed: tokens such as 4096, 4k (= 4096) or 1m")
        if self.baseline not in names:
            raise ValueError(f"baseline: {self.baseline!r} is not among the variants; {nearest(self.baseline, names)}")
        if self.variant(self.baseline).is_quantized:
            raise ValueError(
                f"baseline: {self.baseline!r} is itself quantized; allowed: a variant with a bfloat16 or float16 cache"
            )
        attached = check_attached([(variant.name, variant.endpoint) for variant in self.variants])
        if attached and self.engine != EngineConfig():
            raise ValueError("engine: nothing is launched for variants with an endpoint; allowed: leave it out")
        return self

    @property
    def is_attached(self) -> bool:
        """Whether the servers run already, all of them."""
        return self.variants[0].endpoint is not None

    def variant(self, name: str) -> VariantConfig:
        return next(variant for variant in self.variants if variant.name == name)


def load_config(source: str, overrides: Mapping[str, Any] | None = None) -> SweepConfig:
    """Reads a YAML file or a preset by name; `overrides` replace top-level keys.

    Raises:
        ConfigError: no such file or preset, no YAML, or a key or value that is not allowed.
    """
    path = Path(source)
    if not path.is_file():
        shipped = presets()
        if source not in shipped:
            raise ConfigError(f"{source}: neither a file nor a preset; {nearest(source, shipped)}")
        path = shipped[source]
    data = read_yaml(path, source)
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: not a mapping of keys to values but {type(data).__name__}; "
            f"allowed keys: {', '.join(SweepConfig.model_fields)}"
        )
    if isinstance(data.get("model"), str):
        beside = path.parent / Path(data["model"]).expanduser()
        # A path is meant from the file it stands in; anything else may name a demo model.
        data["model"] = str(beside) if beside.exists() else data["model"]
    if isinstance(data.get("include_path"), str):
        beside = path.parent / Path(data["include_path"]).expanduser()
        data["include_path"] = str(beside) if beside.is_dir() else data["include_path"]
    if isinstance(data.get("tasks"), list):
        data["tasks"] = [task_beside(task, path.parent) for task in data["tasks"]]
    overrides = dict(overrides or {})
    if "load" in overrides:
        of_file = data.get("load")
        overrides["load"] = {**(of_file if isinstance(of_file, Mapping) else {}), **overrides["load"]}
    for key in ("variants", "tasks"):
        if key in overrides:
            overrides[key] = [_configured(data.get(key), name) for name in overrides[key]]
    tasks = overrides.get("tasks", data.get("tasks"))
    # What is asked for on the command line holds for every task, also for those with a value of their own.
    settled = overrides.keys() & {"samples", "context_lengths"}
    if settled and isinstance(tasks, list):
        overrides["tasks"] = [
            {key: value for key, value in task.items() if key not in settled} if isinstance(task, Mapping) else task
            for task in tasks
        ]
    return validate_config({**data, **overrides}, source)


def _configured(entries: Any, name: str) -> Any:
    """The file's own entry of that name, so that a flag can pick among the variants or tasks a file defines."""
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and name in (entry.get("name"), Path(str(entry.get("file") or "")).stem or None):
            return entry
    return name


def validate_config(data: Mapping[str, Any], source: str = "configuration") -> SweepConfig:
    """Raises ConfigError: one line naming the key, the value and what is allowed."""
    try:
        return SweepConfig.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error)}") from error


def _explain(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
    key, reason = key_of(problem), reason_of(problem)
    if problem["type"] == "extra_forbidden":
        location = key.split(".")
        return f"unknown key {key!r}; {nearest(location[-1], _keys_at(location[:-1]))}"
    if problem["type"] == "missing":
        return f"{key}: required, not given"
    if problem["type"] == "value_error":
        return f"{key}: {reason}" if key else reason
    return f"{key}: {problem['input']!r} is not allowed; {reason}"


def _keys_at(location: list[str]) -> list[str]:
    models: dict[str, type[BaseModel]] = {
        "variants": VariantConfig, "tasks": TaskConfig, "engine": EngineConfig, "requests": RequestsConfig,
        "judge": Policy, "emulate": EmulationConfig, "load": LoadConfig,
        "endpoint": EndpointConfig, "declared": DeclaredConfig,
    }  # fmt: skip
    for part in reversed(location):
        if part in models:
            return list(models[part].model_fields)
    return list(SweepConfig.model_fields)
