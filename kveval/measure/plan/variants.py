"""Stage 1: which variants are launched, in which order, on which checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kveval.config.engine import by_flag, flag_name
from kveval.config.sweep import SweepConfig
from kveval.config.variant import VariantConfig
from kveval.engines.base import Installation
from kveval.engines.client.access import Access
from kveval.engines.emulation import check_eager, check_emulated
from kveval.engines.speculation import check_speculation
from kveval.engines.variants import ResolvedVariant, emulated_control, is_its_own_control, resolve
from kveval.engines.vllm.limits import check_logging, check_skipped, check_storage
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.limits import TokenLimit, check_load_fits
from kveval.models.checkpoint import Model, read_model
from kveval.models.dtype import compute_dtype
from kveval.models.weights import count_scales, lfs_pointers
from kveval.run.manifest import Role

_SET_BY_KVEVAL = {
    "model": "use the key model, or model of a variant",
    "port": "use engine.port",
    "host": "leave it out: the engine listens on this machine only",
    "served-model-name": "leave it out",
    "api-key": "leave it out: the engine listens on this machine only",
    "hf-token": "use HF_TOKEN in engine.env",
    "kv-cache-dtype": "use kv_cache_dtype of a variant",
    "speculative-config": "use speculative_config of a variant",
    "spec-method": "use speculative_config of a variant",
    "spec-model": "use speculative_config of a variant",
    "spec-tokens": "use speculative_config of a variant",
}


@dataclass(frozen=True, slots=True)
class PlannedVariants:
    """Variants and their checkpoints.

    Attributes:
        model: the checkpoint of every variant that names no other.
        variants: in launch order: baseline, its A/A run, candidates, controls.
        models: the checkpoint of each variant, by its name.
    """

    config: SweepConfig
    installation: Installation
    model: Model
    variants: list[ResolvedVariant]
    models: dict[str, Model]

    @property
    def limits(self) -> list[TokenLimit]:
        """The token limits of all variants. A variant without a known limit has none."""
        limits = []
        for variant in self.variants:
            endpoint, window = variant.config.endpoint, self.models[variant.name].window
            flag = endpoint.declared.max_model_len if endpoint else max_model_len_flag(self.config, variant.config)
            if flag is not None:
                limits.append(TokenLimit(f"max-model-len of {variant.name}", flag))
            elif window is not None:
                limits.append(TokenLimit(f"the window of {variant.name}'s model", window))
        return limits

    def with_roles(self, roles: Iterable[Role]) -> PlannedVariants:
        """Returns the variants that have one of `roles`."""
        variants = [variant for variant in self.variants if variant.role in roles]
        models = {variant.name: self.models[variant.name] for variant in variants}
        return replace(self, variants=variants, models=models)

    def check_launches(self) -> None:
        """Checks what the launches need of each other. Raises PlanError: one would fail, or differ from the others."""
        flags = {variant.name: flags_of(self.config, variant.config) for variant in self.variants}
        check_eager(self.variants, self.installation.device, flags)
        for variant in self.variants:
            check_storage(variant, self.models[variant.name], flags[variant.name], self.installation.device)
            check_skipped(variant, self.models[variant.name], flags[variant.name])
            check_logging(variant.config.env, f"variants.{variant.name}.env")
        check_logging(self.config.engine.env, "engine.env")


def plan_variants(config: SweepConfig, installation: Installation) -> PlannedVariants:
    """Resolves every variant on the engine's device, and reads every checkpoint."""
    _check_flags(config)
    model = read_model(config.model)
    own = {
        variant.name: read_model(variant.model, f"variants.{variant.name}.model")
        for variant in config.variants
        if variant.model
    }
    variants = _resolved(config, installation, lambda variant: own.get(variant.name, model))
    models = {variant.name: own.get(variant.config.name, model) for variant in variants}
    for variant in variants:
        check_speculation(variant, installation.device)
        check_emulated(variant, models[variant.name], installation, flags_of(config, variant.config))
        _check_control(variant, models)
        _check_endpoint(variant.config)
        _check_weights(variant, models[variant.name])
    planned = PlannedVariants(config, installation, model, variants, models)
    if config.load is not None:
        check_load_fits(config.load, planned.limits)
    return planned


def max_model_len_flag(config: SweepConfig, variant: VariantConfig) -> int | None:
    """Returns what the engine flag ``max-model-len`` says; None without the flag."""
    flag = flags_of(config, variant).get("max-model-len")
    return int(flag) if flag is not None and str(flag).isdigit() else None


def flags_of(config: SweepConfig, variant: VariantConfig) -> dict[str, Any]:
    """Returns the configured engine flags of a variant by name, such as ``{"max-model-len": 4096}``."""
    return by_flag(config.engine.args) | by_flag(variant.engine_args)


def _resolved(
    config: SweepConfig, installation: Installation, model_of: Callable[[VariantConfig], Model]
) -> list[ResolvedVariant]:
    def resolved(variant: VariantConfig, role: Role) -> ResolvedVariant:
        flag = flags_of(config, variant).get("dtype")
        return resolve(variant, device, role, compute_dtype(model_of(variant), flag, device.model_dtypes))

    device = installation.device
    baseline = resolved(config.variant(config.baseline), "baseline")
    candidates = [resolved(one, "candidate") for one in config.variants if one.name != config.baseline]
    controls = [
        emulated_control(candidate, baseline, device)
        for candidate in candidates
        if candidate.config.control and not is_its_own_control(candidate)
    ]
    again = []
    if config.aa_share > 0:
        again = [replace(baseline, name=f"{baseline.name}-aa", role="aa", of=baseline.name)]
    variants = [baseline, *again, *candidates, *controls]
    names = [variant.name for variant in variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"variants: kveval itself adds a variant called {twice!r}; use another name for yours")
    return variants


def _check_flags(config: SweepConfig) -> None:
    places: dict[str, Mapping[str, Any]] = {"engine.args": config.engine.args}
    places |= {f"variants.{variant.name}.engine_args": variant.engine_args for variant in config.variants}
    for place, arguments in places.items():
        for name in arguments:
            instead = _SET_BY_KVEVAL.get(flag_name(name))
            if instead:
                raise PlanError(f"{place}: {name!r} is set by kveval; {instead}")


def _check_control(variant: ResolvedVariant, models: Mapping[str, Model]) -> None:
    native = models.get(variant.of or "")
    scale = variant.emulate.scale if variant.role == "control" and variant.emulate else None
    if native and scale and count_scales(native.path):
        raise PlanError(
            f"variants.{variant.of}: control: emulated rounds at scale {scale:g}, but {native.path} has calibrated "
            "k/v scales, which the native cache uses; remove `control`"
        )


def _check_weights(variant: ResolvedVariant, model: Model) -> None:
    """Check that an engine that kveval launches finds weights. Servers that run already have their own."""
    pointers = lfs_pointers(model.path) if variant.config.endpoint is None else []
    if pointers:
        raise PlanError(
            f"model: {model.path} has only Git LFS pointers for {len(pointers)} weight files, such as {pointers[0]}; "
            "use `git lfs pull` to fetch them"
        )


def _check_endpoint(variant: VariantConfig) -> None:
    if variant.endpoint is not None:
        variant.endpoint.api_key(f"variants.{variant.name}.endpoint")
        Access(ca_file=variant.endpoint.ca_file).certificates()
