from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kveval.config.native_formats import STORED_AS
from kveval.config.sweep import CACHE_DTYPES, VariantConfig, validate_config
from kveval.engines.variants import CPU_NATIVE, Device, ResolvedVariant, emulated_control, local_cpu_flags, resolve
from kveval.errors import PlanError

CPU = Device("cpu", frozenset({"avx2", "avx512f"}))
OLD_CPU = Device("cpu", frozenset({"avx2"}))
GPU = Device("cuda")


def variant(given: Any) -> VariantConfig:
    config = {"model": "m", "variants": ["bf16", given], "tasks": ["t"], "context_lengths": [512]}
    return validate_config(config).variants[-1]


def resolved(given: Any, device: Device = CPU) -> ResolvedVariant:
    return resolve(variant(given), device, "candidate")


@pytest.mark.parametrize("dtype", CPU_NATIVE)
def test_what_the_cpu_stores_itself(dtype: str) -> None:
    found = resolved(dtype)
    assert (found.kv_cache_dtype, found.emulate, found.storage) == (dtype, None, "native")


@pytest.mark.parametrize("dtype", sorted(set(CACHE_DTYPES) - set(CPU_NATIVE)))
def test_what_corrupts_the_cpus_cache_is_refused_with_an_alternative(dtype: str) -> None:
    with pytest.raises(PlanError, match=r"corrupts its cache; allowed on CPU: auto, .* or emulated: \{name: NAME") as e:
        resolved(dtype)
    assert dtype in str(e.value)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_fp8_needs_a_processor_that_has_it(dtype: str) -> None:
    with pytest.raises(PlanError, match=r"needs AVX-512 or AMX on CPU, .* lacks; allowed here: \{name"):
        resolved(dtype, OLD_CPU)
    assert resolved(dtype, Device("cpu", frozenset({"amx_tile"}))).storage == "native"


def test_the_alternative_offered_is_one_that_works() -> None:
    with pytest.raises(PlanError) as caught:
        resolved("fp8", OLD_CPU)
    offered = yaml.safe_load(str(caught.value).split("allowed here: ")[1])
    assert resolved(offered, OLD_CPU).emulate == STORED_AS["fp8"]


def test_int8_is_emulated_on_cpu_and_native_on_gpu() -> None:
    on_cpu, on_gpu = resolved("int8"), resolved("int8", GPU)
    assert (on_cpu.kv_cache_dtype, on_cpu.storage, on_cpu.is_native_8bit_or_less) == ("bfloat16", "emulated", False)
    assert on_cpu.emulate == STORED_AS["int8_per_token_head"]
    assert (on_gpu.kv_cache_dtype, on_gpu.storage) == ("int8_per_token_head", "native")
    assert on_gpu.is_native_8bit_or_less


def test_emulation_stays_available_on_gpu() -> None:
    found = resolved({"name": "mine", "emulate": {"format": "int4", "granularity": "per_head"}}, GPU)
    assert (found.kv_cache_dtype, found.storage) == ("bfloat16", "emulated")
    assert found.emulate is not None
    assert found.emulate.granularity == "per_head"


def test_emulation_on_a_quantized_cache_is_refused() -> None:
    with pytest.raises(PlanError, match=r"variants\.x: emulate rounds .* kv_cache_dtype is 'fp8'; allowed: bfloat16"):
        resolved({"name": "x", "kv_cache_dtype": "fp8", "emulate": {"format": "int8"}}, GPU)


@pytest.mark.parametrize("dtype", sorted(STORED_AS))
def test_a_control_is_the_baselines_engine_with_the_candidates_format(dtype: str) -> None:
    baseline = resolve(variant({"name": "b", "kv_cache_dtype": "bfloat16", "engine_args": {"x": 1}}), GPU, "baseline")
    candidate = resolved({"name": "c", "kv_cache_dtype": dtype, "engine_args": {"x": 2}}, GPU)
    made = emulated_control(candidate, baseline)
    assert (made.name, made.role, made.of, made.kv_cache_dtype) == ("c-control", "control", "c", "bfloat16")
    assert made.config == baseline.config
    assert made.emulate == STORED_AS[dtype]


@pytest.mark.parametrize(
    ("given", "device", "message"),
    [
        ("int8", CPU, "this variant is emulated here itself; remove `control`"),
        ("nvfp4", GPU, "cannot emulate 'nvfp4'; allowed: fp8, "),
        ({"name": "c", "kv_cache_dtype": "fp8", "model": "other"}, GPU, "a checkpoint of its own; remove `control`"),
    ],
)
def test_what_has_no_control(given: Any, device: Device, message: str) -> None:
    baseline = resolve(variant({"name": "b", "kv_cache_dtype": "bfloat16"}), device, "baseline")
    with pytest.raises(PlanError, match=message):
        emulated_control(resolved(given, device), baseline)


def test_flags_of_this_machine() -> None:
    flags = local_cpu_flags()
    assert all(flag == flag.lower() and " " not in flag for flag in flags)
    assert bool(flags) == (Path("/proc/cpuinfo").exists() and "flags" in Path("/proc/cpuinfo").read_text())
