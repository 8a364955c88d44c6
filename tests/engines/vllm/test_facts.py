from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.emulation import INT8
from support.model_folder import write_safetensors
from support.variants import variant
from support.vllm_logs import CPU_LOG

from kveval.engines.plugin.emulation import EmulationSpec, coverage_line, live_line, requested_line
from kveval.engines.variants import Device
from kveval.engines.vllm.facts import Facts, assemble, emulation_facts, scales_in_force, speculation_facts

METRICS = """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="True",engine="0",\
kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="42.8",kv_cache_size_tokens="90112",num_gpu_blocks="704"} 1.0
"""


def test_scales_in_force(tmp_path: Path) -> None:
    fp8 = variant("fp8")
    assert scales_in_force(variant("bf16", "baseline"), "bfloat16", tmp_path, "") == "none"
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "1.0"
    assert scales_in_force(fp8, None, tmp_path, "") == "1.0"
    assert scales_in_force(variant("int8", device=Device("cuda")), "int8_per_token_head", tmp_path, "") == "dynamic"
    assert scales_in_force(variant("int8"), "bfloat16", tmp_path, "") == "dynamic"
    fixed = {"format": "fp8_e4m3", "granularity": "per_tensor", "scale": 1.0}
    assert scales_in_force(variant("mine", emulate=fixed), "bfloat16", tmp_path, "") == "1.0"
    unset = {"format": "fp8_e4m3", "granularity": "per_tensor"}
    assert scales_in_force(variant("mine", emulate=unset), "bfloat16", tmp_path, "") == "1.0"
    write_safetensors(tmp_path / "a.safetensors", ["model.layers.0.self_attn.attn.k_scale"])
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "calibrated"
    (tmp_path / "config.json").write_text("{}")
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "1.0", "vLLM loads scales only for a quantized checkpoint"
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "calibrated"
    assert scales_in_force(fp8, "fp8", tmp_path, "WARNING Using KV cache scaling factor 1.0 for fp8_e4m3.") == "1.0"


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [("turboquant_4bit_nc", "dynamic"), ("ultraquant_4bit", "dynamic"), ("nvfp4", "dynamic"), ("fp8_ds_mla", "dynamic"),
     ("mxfp4", "unknown")],
)  # fmt: skip
def test_scales_that_no_checkpoint_holds_are_never_called_1(tmp_path: Path, dtype: str, scales: str) -> None:
    gpu = variant("x", device=Device("cuda"), kv_cache_dtype=dtype)
    # vLLM logs this line for nvfp4 as well, whose blocks have scales of their own.
    assert scales_in_force(gpu, dtype, tmp_path, "Using KV cache scaling factor 1.0 for fp8_e4m3.") == scales


def test_assembled_from_what_a_real_server_answers(tmp_path: Path) -> None:
    assembled = assemble(
        variant(),
        version="0.32.0",
        metrics_text=METRICS,
        models={"data": [{"id": "kveval", "max_model_len": 2104}]},
        log=CPU_LOG,
        model=tmp_path,
        startup_seconds=33.333,
        engine_args={"max-num-seqs": 64},
    )
    assert assembled == Facts(
        engine_version="0.32.0", device="cpu", attention_backend="CPU_ATTN", requested_cache_dtype="fp8",
        effective_cache_dtype="fp8", storage="native", kv_capacity_tokens=90112, block_size=128, scales="1.0",
        prefix_caching=True, execution="eager", max_model_len=2104, max_num_seqs=64, skip_layers="[]",
        model_dtype="bfloat16", startup_seconds=33.3,
    )  # fmt: skip


def test_what_the_log_shows_of_emulation() -> None:
    lines = [requested_line(INT8), live_line(0, 61, 3.9e-3, 4.1e-3)]
    facts = emulation_facts(INT8, "\n".join(lines))
    assert facts == {
        "emulation": "int8 per_token_head (emulated)", "emulation_live": True, "rounded_layers": None,
        "unrounded_layers": None,
    }  # fmt: skip
    facts = emulation_facts(INT8, "\n".join([*lines, coverage_line({0, 1}, set(), {2})]))
    assert (facts["rounded_layers"], facts["unrounded_layers"]) == (2, [2])
    other = EmulationSpec(format="int4")
    assert emulation_facts(other, "\n".join(lines))["emulation_live"] is False


def test_a_worker_knows_better_than_the_server_what_it_stores(tmp_path: Path) -> None:
    assembled = assemble(
        variant(), version=None, metrics_text=METRICS, models={}, model=tmp_path, startup_seconds=1.0, engine_args={},
        log="INFO [mla_attention.py:529] Using fp8_ds_mla KV cache format for FLASHMLA_SPARSE backend.",
    )  # fmt: skip
    assert (assembled.effective_cache_dtype, assembled.scales) == ("fp8_ds_mla", "dynamic")


@pytest.mark.parametrize(
    ("engine_args", "tokens"),
    [({"max-num-batched-tokens": 512}, 512), ({"max_num_batched_tokens": "512"}, 512),
     ({"max-num-batched-tokens": "8k"}, None), ({"max-num-batched-tokens": True}, None)],
)  # fmt: skip
def test_flags_in_words_only_the_engine_understands_are_no_facts(
    tmp_path: Path, engine_args: dict[str, Any], tokens: int | None
) -> None:
    assembled = assemble(
        variant(), version=None, metrics_text="", models={}, log="", model=tmp_path, startup_seconds=1.0,
        engine_args=engine_args,
    )  # fmt: skip
    assert assembled.max_num_batched_tokens == tokens
    assert assembled.effective_cache_dtype is None
    assert assembled.kv_capacity_tokens is None


def test_scales_of_a_checkpoint_that_cannot_be_read_are_not_called_1(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"version https://git-lfs")
    assert scales_in_force(variant("fp8"), "fp8", tmp_path, "") == "unknown"


DRAFTS = """\
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 20.0
"""
SPECULATING_LOG = "Initializing a V1 LLM engine (v0.32.0) with config: model='m', speculative_config=SpeculativeConfig(\
method='ngram', model=None, num_spec_tokens=2), tokenizer='m'"


def families(text: str) -> list[Any]:
    from prometheus_client.parser import text_string_to_metric_families

    return list(text_string_to_metric_families(text))


def test_speculation_is_established_from_metrics_and_log() -> None:
    found = speculation_facts(families(DRAFTS), SPECULATING_LOG)
    assert found == {"speculative_tokens": 2, "speculative_method": "ngram"}
    assert speculation_facts([], SPECULATING_LOG) == {}
