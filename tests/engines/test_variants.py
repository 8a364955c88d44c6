from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.variants import configured

from kveval.config.emulation import emulation_of
from kveval.config.sweep import validate_config
from kveval.config.variant import VariantConfig
from kveval.engines.variants import Device, ResolvedVariant, emulated_control, local_cpu_flags, resolve
from kveval.errors import PlanError
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES

CPU = Device("cpu", frozenset({"avx2", "avx512f"}))
OLD_CPU = Device("cpu", frozenset({"avx2"}))
GPU = Device("cuda")

NOT_EMULATED = next(entry.name for entry in CACHE_DTYPES.values() if entry.is_quantized and not entry.rounding)
IN_VLLM = [entry for entry in CACHE_DTYPES.values() if entry.is_in_vllm]


def variant(given: Any) -> VariantConfig:
    config = {"model": "m", "variants": ["bf16", given], "tasks": ["t"], "context_lengths": [512]}
    return validate_config(config).variants[-1]


def resolved(given: Any, device: Device = CPU) -> ResolvedVariant:
    return resolve(variant(given), device, "candidate")


@pytest.mark.parametrize("dtype", CPU_DTYPES)
def test_what_the_cpu_stores_itself(dtype: str) -> None:
    found = resolved(dtype)
    assert (found.kv_cache_dtype, found.emulate, found.storage) == (dtype, None, "native")


@pytest.mark.parametrize("dtype", [entry.name for entry in IN_VLLM if not entry.is_native_on_cpu])
def test_what_corrupts_the_cpus_cache_is_refused_with_an_alternative(dtype: str) -> None:
    with pytest.raises(PlanError, match=r"corrupts its cache; use on CPU: auto, .* or emulated: \{name: NAME") as e:
        resolved(dtype)
    assert dtype in str(e.value)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_fp8_needs_a_processor_that_has_it(dtype: str) -> None:
    with pytest.raises(PlanError, match=r"needs AVX-512 or AMX on CPU, .* lacks; use here: \{name"):
        resolved(dtype, OLD_CPU)
    assert resolved(dtype, Device("cpu", frozenset({"amx_tile"}))).storage == "native"


def test_the_alternative_offered_is_one_that_works() -> None:
    with pytest.raises(PlanError) as caught:
        resolved("fp8", OLD_CPU)
    offered = yaml.safe_load(str(caught.value).split("use here: ")[1])
    assert resolved(offered, OLD_CPU).emulate == emulation_of("fp8")


def with_dtypes(*names: str, kind: str = "cuda") -> Device:
    return Device(kind, frozenset({"avx512f"}), frozenset(names))


def test_a_dtype_that_only_the_installed_vllm_knows_is_launched() -> None:
    found = resolved({"name": "new", "kv_cache_dtype": "mxfp4"}, with_dtypes("bfloat16", "mxfp4"))
    assert (found.kv_cache_dtype, found.storage, found.expected_capacity_ratio) == ("mxfp4", "native", None)


def test_a_dtype_is_launched_where_the_installed_vllm_cannot_be_asked() -> None:
    assert resolved({"name": "new", "kv_cache_dtype": "mxfp4"}, GPU).kv_cache_dtype == "mxfp4"


@pytest.mark.parametrize("dtype", ["mxfp9", "nvfp4"])
def test_a_dtype_that_the_installed_vllm_does_not_know_is_refused(dtype: str) -> None:
    with pytest.raises(PlanError, match=rf"variants\.x: kv_cache_dtype: '{dtype}' is not a cache dtype of .* 'mx"):
        resolved({"name": "x", "kv_cache_dtype": dtype}, with_dtypes("bfloat16", "mxfp4", "mxfp8"))


def test_int8_is_emulated_where_the_installed_vllm_lacks_it() -> None:
    found = resolved("int8", with_dtypes("bfloat16", "fp8"))
    assert (found.kv_cache_dtype, found.emulate) == ("bfloat16", emulation_of("int8_per_token_head"))


def test_the_cpu_engine_is_given_no_dtype_that_kveval_does_not_know() -> None:
    with pytest.raises(PlanError, match=r"takes 'mxfp4' without a check and corrupts its cache; use on CPU: auto, "):
        resolved({"name": "new", "kv_cache_dtype": "mxfp4"}, with_dtypes("bfloat16", "mxfp4", kind="cpu"))


@pytest.mark.parametrize(
    ("dtype", "ratio"), [("bfloat16", None), ("fp8", 2), ("int4_per_token_head", 4), ("turboquant_k3v4_nc", 16 / 3.5)]
)
def test_the_capacity_a_format_should_give(dtype: str, ratio: float | None) -> None:
    assert resolved({"name": "x", "kv_cache_dtype": dtype}, GPU).expected_capacity_ratio == ratio


def test_int8_is_emulated_on_cpu_and_native_on_gpu() -> None:
    on_cpu, on_gpu = resolved("int8"), resolved("int8", GPU)
    assert (on_cpu.kv_cache_dtype, on_cpu.storage, on_cpu.is_natively_quantized) == ("bfloat16", "emulated", False)
    assert on_cpu.emulate == emulation_of("int8_per_token_head")
    assert (on_gpu.kv_cache_dtype, on_gpu.storage) == ("int8_per_token_head", "native")
    assert on_gpu.is_natively_quantized


def test_emulation_stays_available_on_gpu() -> None:
    found = resolved({"name": "mine", "emulate": {"format": "int4", "granularity": "per_head"}}, GPU)
    assert (found.kv_cache_dtype, found.storage) == ("bfloat16", "emulated")
    assert found.emulate is not None
    assert found.emulate.granularity == "per_head"


def test_emulation_on_a_quantized_cache_is_refused() -> None:
    with pytest.raises(PlanError, match=r"variants\.x: emulate rounds .* kv_cache_dtype is 'fp8'; use: bfloat16"):
        resolved({"name": "x", "kv_cache_dtype": "fp8", "emulate": {"format": "int8"}}, GPU)


@pytest.mark.parametrize("dtype", [entry.name for entry in IN_VLLM if entry.rounding])
def test_a_control_is_the_baselines_engine_with_the_candidates_format(dtype: str) -> None:
    baseline = resolve(variant({"name": "b", "kv_cache_dtype": "bfloat16", "engine_args": {"x": 1}}), GPU, "baseline")
    candidate = resolved({"name": "c", "kv_cache_dtype": dtype, "engine_args": {"x": 2}}, GPU)
    made = emulated_control(candidate, baseline, GPU)
    assert (made.name, made.role, made.of, made.kv_cache_dtype) == ("c-control", "control", "c", "bfloat16")
    assert made.config == baseline.config
    assert made.emulate == emulation_of(dtype)


@pytest.mark.parametrize(("dtype", "granularity"), [("fp8", "per_tensor"), ("fp8_per_token_head", "per_token_head")])
def test_a_control_rounds_to_what_the_device_stores(dtype: str, granularity: str) -> None:
    mi300, mi350 = (Device("rocm", architecture=name) for name in ("gfx942:sramecc+:xnack-", "gfx950"))
    baseline = resolve(configured().variant("bf16"), mi300, "baseline")
    candidate = resolved(dtype, mi300)
    formats = {}
    for device in (mi300, mi350):
        made = emulated_control(candidate, baseline, device).emulate
        assert made is not None
        assert made.granularity == granularity
        formats[device.architecture] = made.format
    assert formats == {"gfx942:sramecc+:xnack-": "fp8_e4m3fnuz", "gfx950": "fp8_e4m3"}


@pytest.mark.parametrize(
    ("given", "device", "message"),
    [
        ("int8", CPU, "this variant is emulated here itself; remove `control`"),
        (NOT_EMULATED, GPU, f"cannot emulate '{NOT_EMULATED}'; use: fp8, "),
        ({"name": "c", "kv_cache_dtype": "fp8", "model": "other"}, GPU, "a checkpoint of its own; remove `control`"),
    ],
)
def test_what_has_no_control(given: Any, device: Device, message: str) -> None:
    baseline = resolve(variant({"name": "b", "kv_cache_dtype": "bfloat16"}), device, "baseline")
    with pytest.raises(PlanError, match=message):
        emulated_control(resolved(given, device), baseline, device)


def follows(given: Any, model_dtype: str | None, role: str = "candidate") -> str:
    return resolve(variant(given), GPU, role, model_dtype).kv_cache_dtype


@pytest.mark.parametrize(
    ("model_dtype", "stored"),
    [("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "auto"), (None, "bfloat16")],
)
def test_a_baseline_and_what_is_emulated_store_what_the_model_computes(model_dtype: str | None, stored: str) -> None:
    baseline = resolve(configured().variant("bf16"), CPU, "baseline", model_dtype)
    assert baseline.kv_cache_dtype == stored
    assert follows({"name": "mine", "emulate": {"format": "int4"}}, model_dtype) == stored
    assert resolve(variant("int8"), CPU, "candidate", model_dtype).kv_cache_dtype == stored
    native = resolve(variant("fp8"), GPU, "candidate", model_dtype)
    assert (native.kv_cache_dtype, native.storage) == ("fp8", "native")
    assert emulated_control(native, baseline, GPU).kv_cache_dtype == stored


@pytest.mark.parametrize(
    ("given", "role", "model_dtype", "instead"),
    [
        ({"name": "plain", "kv_cache_dtype": "bfloat16"}, "candidate", "float16", "float16"),
        ({"name": "plain", "kv_cache_dtype": "bfloat16"}, "baseline", "float16", "float16"),
        ("bfloat16", "baseline", "float16", "float16"),
        ("fp16", "candidate", "bfloat16", "bfloat16"),
        ("fp16", "candidate", "float32", "auto"),
        ({"name": "x", "kv_cache_dtype": "float16", "emulate": {"format": "int8"}}, "aa", "bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_an_unquantized_cache_of_another_dtype_than_the_models_is_refused(
    given: Any, role: str, model_dtype: str, instead: str
) -> None:
    with pytest.raises(
        PlanError, match=rf"variants\..*: kv_cache_dtype: the model computes in {model_dtype}, .*; use: {instead}$"
    ):
        follows(given, model_dtype, role)


def test_a_server_that_runs_already_has_its_own_dtype() -> None:
    attached = {"name": "a", "kv_cache_dtype": "bfloat16", "endpoint": {"url": "http://h:1", "model": "m"}}
    config = {"model": "m", "variants": [attached], "baseline": "a", "tasks": ["t"], "context_lengths": [512]}
    one = validate_config(config).variants[0]
    assert resolve(one, Device(None), "baseline", "float16").kv_cache_dtype == "bfloat16"


def test_flags_of_this_machine() -> None:
    flags = local_cpu_flags()
    assert all(flag == flag.lower() and " " not in flag for flag in flags)
    assert bool(flags) == (Path("/proc/cpuinfo").exists() and "flags" in Path("/proc/cpuinfo").read_text())
