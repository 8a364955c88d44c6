"""One engine setting under test: one entry of the configuration's ``variants``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, field_validator, model_validator

from kveval.config.emulation import EmulationConfig, emulation_of
from kveval.config.endpoint import EndpointConfig, expand_endpoint
from kveval.config.engine import EngineArgs, Environment
from kveval.config.speculation import expand_speculative
from kveval.config.values import NAME, StrictModel
from kveval.errors import nearest
from kveval.formats.cache_dtype import CacheDtype
from kveval.formats.registry import CACHE_DTYPES, find_dtype, is_unquantized

EMULATED_ON = "bfloat16"
"""The cache that stores rounded values where a configuration names none, unless the model computes in another dtype."""


def _shorthand(entry: CacheDtype, *, is_alias: bool) -> dict[str, Any]:
    if entry.is_in_vllm:
        return {"kv_cache_dtype": entry.name} | ({"emulate_where_missing": True} if is_alias and entry.rounding else {})
    return {"kv_cache_dtype": EMULATED_ON, "emulate": emulation_of(entry.name)}


SHORTHANDS: dict[str, dict[str, Any]] = {
    name: _shorthand(entry, is_alias=name != entry.name)
    for entry in CACHE_DTYPES.values()
    if entry.is_in_vllm or entry.rounding
    for name in (entry.name, *entry.aliases)
}
"""Variants by name: every cache dtype that can be launched or emulated, in full and by its aliases."""


class VariantConfig(StrictModel):
    """One engine setting under test.

    Attributes:
        engine_args: further flags of its engine, on top of ``engine.args``.
        model: another checkpoint than the sweep's, such as one with calibrated scales; also of an endpoint, whose
            server then serves it.
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
    engine_args: EngineArgs = {}
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
            raise ValueError(f"{value!r} is not a variant name; use letters, digits, '.', '_' and '-'")
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
        launched = ("engine_args", "env", "emulate", "emulate_where_missing", "control", "speculative_config")
        given = next((key for key in launched if getattr(self, key)), None)
        if self.endpoint is not None and given:
            raise ValueError(f"{given}: only servers that kveval launches have it; leave out {given} or endpoint")
        return self

    @property
    def is_quantized(self) -> bool:
        """Whether its cache holds less than what the model computes, stored so or emulated."""
        return self.emulate is not None or not is_unquantized(self.kv_cache_dtype)


def expand_variant(value: Any) -> Any:
    """Returns a variant with every key that its name or its cache dtype stands for written out."""
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
        return _expand_attached(value)
    if isinstance(value, Mapping) and "kv_cache_dtype" not in value and str(value.get("name")) in SHORTHANDS:
        return {**SHORTHANDS[str(value["name"])], **value}
    if isinstance(value, Mapping) and "kv_cache_dtype" not in value and "emulate" in value:
        return {"kv_cache_dtype": EMULATED_ON, **value}
    if isinstance(value, Mapping) and str(value.get("kv_cache_dtype")) in SHORTHANDS:
        return {**value, **SHORTHANDS[str(value["kv_cache_dtype"])]}
    return value


def _expand_attached(value: Mapping[str, Any]) -> dict[str, Any]:
    # An unquantized cache gets the name vLLM has for it. Any other keeps the name its own engine has for it.
    stored = str(value.get("kv_cache_dtype", value.get("name")))
    entry = find_dtype(stored)
    if "kv_cache_dtype" not in value and entry is None:
        return dict(value)
    return {**value, "kv_cache_dtype": stored if entry is None or entry.is_quantized else entry.name}
