"""What a running engine was found to be doing: one typed model for measuring, judging and reporting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from kveval.run.storage import Stored

PromptForm = Literal["token_ids", "text", "text_without_bos"]
Level = Literal["info", "warning", "error"]
Scales = Literal["calibrated", "1.0", "dynamic", "none", "unknown"]
# These differ between launches of the same engine on the same machine, and say nothing about its answers.
VOLATILE_FACTS = frozenset({"startup_seconds", "kv_cache_gib"})


class Facts(BaseModel):
    """What the engine of one variant was found to be doing. A fact is None if nobody has said it.

    Attributes:
        requested_cache_dtype: what kveval asked for; `effective_cache_dtype`: what the server's metrics report.
        storage: native, or emulated: rounded by kveval's plugin and stored as BF16, which saves no memory.
        emulation: format and granularity; `emulation_live`: the engine log shows values being rounded.
        rounded_layers: how many layers emulation rounded; `unrounded_layers`: which it should have and did not. None if
            nothing is emulated, or the log does not tell.
        kv_capacity_tokens: what the cache holds; `kv_capacity_ratio`: to the baseline's.
        kv_cache_gib: memory of the cache on one device, as the engine logs it; the CPU engine does not.
        forced_decode: whether outputs can be forced: the engine wrote a text that kveval gave it, and the
            probabilities read inside it are those of its answer. None if this was not tried.
        stepwise: whether probabilities of given texts can be read in requests of one token each. None if this was not
            tried, as where outputs can be forced.
        speculative_tokens: of each draft at most; None where the server does not speculate.
        scales: of K and V: calibrated (from the checkpoint), 1.0, dynamic (computed per token), none (not quantized).
        declared: names of facts that the configuration says and the server does not. This and all below are facts of
            endpoints only.
        endpoint: address; `served_model`: what /v1/models says of the model; `answers_as`: what its answers call it;
            `streams_as`: what its streams call it, if that is another name.
        prompt_form: how prompts are sent; `added_prompt_tokens`: the server counts so many more in each than we do.
        lacks: what kveval would use and the server does not have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine_version: str | None = None
    device: str | None = None
    attention_backend: str | None = None
    requested_cache_dtype: str | None = None
    effective_cache_dtype: str | None = None
    storage: Literal["native", "emulated"] | None = None
    emulation: str | None = None
    emulation_live: bool | None = None
    rounded_layers: int | None = None
    unrounded_layers: list[int] | None = None
    kv_capacity_tokens: int | None = None
    kv_capacity_ratio: float | None = None
    block_size: int | None = None
    scales: Scales = "unknown"
    prefix_caching: bool | None = None
    execution: Literal["eager", "graphs"] | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_gib: float | None = None
    skip_layers: str | None = None
    speculative_method: str | None = None
    speculative_tokens: int | None = None
    model_dtype: str | None = None
    forced_decode: bool | None = None
    stepwise: bool | None = None
    startup_seconds: float | None = None
    declared: list[str] = []
    endpoint: str | None = None
    served_model: str | None = None
    answers_as: str | None = None
    streams_as: str | None = None
    prompt_form: PromptForm | None = None
    added_prompt_tokens: int | None = None
    lacks: list[str] = []

    @property
    def is_established(self) -> bool:
        """Whether the engine has answered at all."""
        return self.storage is not None

    @property
    def skipped_layers(self) -> list[str]:
        """The names in `skip_layers`, a list as Python writes it: numbers of layers, or kinds of them."""
        return re.findall(r"[\w-]+", self.skip_layers or "")

    @property
    def is_emulated(self) -> bool:
        return self.storage == "emulated"

    def is_declared(self, name: str) -> bool:
        """Whether a fact comes from the configuration and not from the server."""
        return name.replace("_ratio", "_tokens") in self.declared

    def identity(self) -> dict[str, Any]:
        """Returns the facts that decide answers. A resumed run must have the same."""
        capacity = {"kv_capacity_tokens", "kv_capacity_ratio"}
        return self.model_dump(exclude={*VOLATILE_FACTS, *capacity, *_OF_THE_LOG, "forced_decode", "stepwise"})

    def compared_with(self, later: Facts) -> SecondLook:
        """Compares these facts of a running server with what the same server says later.

        A server that tells less than before has not changed for that, and one that tells more has neither.
        """
        changed: dict[str, tuple[str, str]] = {}
        untold: list[str] = []
        for name in type(self).model_fields.keys() - _NOT_WATCHED:
            before, after = getattr(self, name), getattr(later, name)
            if before in _UNTOLD or before == after or (name == "engine_version" and _is_same_version(before, after)):
                continue
            if after in _UNTOLD or (later.is_declared(name) and not self.is_declared(name)):
                untold.append(name)
            else:
                changed[name] = (f"{before}{' (declared)' if self.is_declared(name) else ''}", str(after))
        return SecondLook(dict(sorted(changed.items())), sorted(untold))


def _is_same_version(before: str, after: str | None) -> bool:
    """Compares versions without the engine's name in front, which kveval knows from other facts."""
    return after is not None and before.removeprefix("vLLM ") == after.removeprefix("vLLM ")


# What the log of an engine shows of emulation. Older runs do not have all of it.
_OF_THE_LOG = {"emulation_live", "rounded_layers", "unrounded_layers"}
# Computed by kveval, or different from one moment to the next although the server does the same.
_NOT_WATCHED = {
    "startup_seconds", "kv_capacity_ratio", "kv_cache_gib", "forced_decode", "stepwise", "declared", "lacks",
    *_OF_THE_LOG,
}  # fmt: skip
_UNTOLD = (None, "unknown")


@dataclass(frozen=True, slots=True)
class SecondLook:
    """How facts that were read again differ from those of the first reading.

    Attributes:
        changed: the first value and the new one, by the fact's name.
        untold: facts that the server told at first, and no longer tells.
    """

    changed: Mapping[str, tuple[str, str]]
    untold: list[str]


def _unestablished(value: Any) -> Any:
    """Reads the null of runs whose engine never started."""
    return {} if value is None else value


StoredFacts = Annotated[Facts, BeforeValidator(_unestablished)]


class Finding(Stored):
    """Something true about the engine that a reviewer must know.

    A finding of level error stops its variant, unless the configuration accepts its code by name.

    Example:
        Finding.warning("no_prefix_caching", "prefix caching is off")
    """

    level: Level
    code: str
    message: str

    @classmethod
    def info(cls, code: str, message: str) -> Finding:
        return cls(level="info", code=code, message=message)

    @classmethod
    def warning(cls, code: str, message: str) -> Finding:
        return cls(level="warning", code=code, message=message)

    @classmethod
    def error(cls, code: str, message: str) -> Finding:
        return cls(level="error", code=code, message=message)


def with_findings(findings: Iterable[Finding], new: Iterable[Finding]) -> list[Finding]:
    """Adds findings. They replace those of the same codes."""
    added = list(new)
    codes = {finding.code for finding in added}
    return [*(finding for finding in findings if finding.code not in codes), *added]


class FactsChange(Stored):
    """One fact of a running server that changed while the server was asked.

    Attributes:
        at_question: questions the variant had answered when the change was seen. The change itself came between the
            reading before and this one.
        at: when it was seen, UTC, as ISO 8601.
        name: of the fact, as in `Facts`.
    """

    at_question: int
    at: str
    name: str
    before: str
    after: str
