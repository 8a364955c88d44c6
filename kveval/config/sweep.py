"""The sweep configuration: every key, and what must hold between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from kveval.config.engine import EngineConfig, RequestsConfig
from kveval.config.judge import Policy
from kveval.config.load import LoadConfig
from kveval.config.messages import explain
from kveval.config.task import AUTO, HaystackStyle, QuestionsPerHaystack, SampleCount, TaskConfig, expand_task
from kveval.config.values import AbsolutePath, ContextLength, JsonMapping, NoBoolean, StrictModel, check_listed_once
from kveval.config.variant import VariantConfig, expand_variant
from kveval.errors import ConfigError, nearest


class DivergenceConfig(StrictModel):
    """Along what texts the divergence of every variant from the baseline is measured: the configuration's `divergence`.

    Attributes:
        samples: prompts after which the baseline writes an output that all variants are then made to write, spread over
            context lengths.
        tokens: how many are forced along each output, and at the end of each text.
        top_k: the baseline's most likely tokens whose probability is read at every step. All others count as one.
        texts: files with text of your own. The last `tokens` of each are forced, and all before them is the prompt.
    """

    samples: Annotated[int, Field(ge=0, le=10_000), NoBoolean] = 8
    tokens: Annotated[int, Field(gt=0, le=1 << 20), NoBoolean] = 256
    top_k: Annotated[int, Field(gt=0, le=1 << 14), NoBoolean] = 256
    texts: list[AbsolutePath] = []

    @model_validator(mode="after")
    def _something_once(self) -> DivergenceConfig:
        if not (self.samples or self.texts):
            raise ValueError("samples, texts: 0 and empty; use a number of samples, or a file in texts")
        check_listed_once("texts", self.texts)
        return self


class BudgetConfig(StrictModel):
    """The most that a sweep asks. A context length that is decided leaves its part to the others.

    Attributes:
        samples: of one candidate.
        gpu_hours: of all servers together, as measured. What is left of it is shared equally by the servers that are
            still to be asked. Each is asked at least up to the first look.
    """

    samples: Annotated[int, NoBoolean, Field(gt=0)] | None = None
    gpu_hours: Annotated[float, NoBoolean, Field(gt=0)] | None = None


class SweepConfig(StrictModel):
    """Everything that decides a sweep.

    Attributes:
        context_lengths: by default 4K, 16K, 64K and so on, up to what the window of the model holds.
        samples: per cell.
        questions_per_haystack: samples that share one context and its prefill. ``auto`` chooses what gives most
            certainty for the time of each cell, by its length and by earlier runs of the model beside the new one.
        baseline_from: an earlier run, or a folder of runs, from which answers are taken where nothing that decides them
            has changed: model, engine, flags, device, tasks, samples. None asks everything.
        confirm_share: share of the haystacks of taken answers that is asked again, at least two and one of each length.
        aa_share: share of the samples the baseline answers a second time.
        accept_findings: codes of error findings that do not stop a variant.
        stop: ``when_decided`` judges candidates while they are asked, and asks no more than their verdicts need;
            ``never`` asks everything and judges once.
        budget: the most that is asked.
        cold_check: samples asked once more without the prefix cache: how many, or their share; 0 for none.
        load: also measure the speed of every server once its samples are answered; None to leave it out.
        divergence: also measure how far every variant moves from the baseline along a text; None to leave it out.
        include_path: a folder with more task files. Builders and scorers they name are imported and run.
    """

    model: Path
    variants: list[Annotated[VariantConfig, BeforeValidator(expand_variant)]] = Field(min_length=1)
    baseline: str = "bf16"
    context_lengths: list[ContextLength] = []
    tasks: list[Annotated[TaskConfig, BeforeValidator(expand_task)]] = Field(min_length=1)
    include_path: AbsolutePath | None = None
    samples: SampleCount = 20
    questions_per_haystack: QuestionsPerHaystack = AUTO
    haystack: HaystackStyle = "essays"
    prompt_style: Literal["auto", "chat", "completion"] = "auto"
    chat_template_kwargs: JsonMapping = {}
    seed: Annotated[int, Field(ge=0)] = 0
    baseline_from: AbsolutePath | None = None
    confirm_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    aa_share: Annotated[float, Field(ge=0, le=1)] = 1.0
    cold_check: Annotated[Annotated[int, Field(ge=0, strict=True)] | Annotated[float, Field(gt=0, le=1)], NoBoolean] = (
        10
    )
    stop: Literal["when_decided", "never"] = "when_decided"
    budget: BudgetConfig = BudgetConfig()
    accept_findings: list[str] = []
    engine: EngineConfig = EngineConfig()
    requests: RequestsConfig = RequestsConfig()
    judge: Policy = Policy()
    load: LoadConfig | None = None
    divergence: DivergenceConfig | None = None
    out: Path | None = None

    @model_validator(mode="after")
    def _lists_are_distinct(self) -> SweepConfig:
        check_listed_once("variants", [variant.name for variant in self.variants])
        check_listed_once("tasks", [task.name for task in self.tasks])
        check_listed_once("context_lengths", self.context_lengths)
        return self

    @model_validator(mode="after")
    def _baseline_is_an_unquantized_variant(self) -> SweepConfig:
        names = [variant.name for variant in self.variants]
        if self.baseline not in names:
            raise ValueError(f"baseline: {self.baseline!r} is not among the variants; {nearest(self.baseline, names)}")
        if self.variant(self.baseline).is_quantized:
            raise ValueError(
                f"baseline: {self.baseline!r} is itself quantized; use a variant with a bfloat16 or float16 cache"
            )
        return self

    @model_validator(mode="after")
    def _all_launched_or_all_attached(self) -> SweepConfig:
        attached = {variant.name: variant.endpoint for variant in self.variants if variant.endpoint is not None}
        launched = next((variant.name for variant in self.variants if variant.endpoint is None), None)
        if attached and launched:
            raise ValueError(
                f"variants: {next(iter(attached))} has an endpoint and {launched} has none: two engines would be "
                "compared, not two caches; use an endpoint for every variant, or for none"
            )
        served = Counter((endpoint.url, endpoint.model) for endpoint in attached.values())
        same = [name for name, endpoint in attached.items() if served[endpoint.url, endpoint.model] > 1]
        if same:
            raise ValueError(
                f"variants: {' and '.join(same)} name the same url and model, so the same server; "
                "use another url or another model name for each"
            )
        if attached and self.engine != EngineConfig():
            raise ValueError("engine: nothing is launched for variants with an endpoint; leave engine out")
        return self

    @model_validator(mode="after")
    def _divergence_forces_outputs(self) -> SweepConfig:
        if self.divergence and not self.requests.forced_decode:
            raise ValueError(
                "divergence: requests.forced_decode is false, so nothing is forced; use: requests.forced_decode: true"
            )
        return self

    @property
    def is_attached(self) -> bool:
        """Whether all servers run already."""
        return self.variants[0].endpoint is not None

    def variant(self, name: str) -> VariantConfig:
        """Returns the variant called `name`."""
        return next(variant for variant in self.variants if variant.name == name)


def validate_config(data: Mapping[str, Any], source: str = "configuration") -> SweepConfig:
    """Returns `data` as a configuration.

    Raises:
        ConfigError: one line that names the key, the value and what to use instead.
    """
    try:
        return SweepConfig.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error, SweepConfig)}") from error
