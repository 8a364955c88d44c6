"""Classes and functions of vLLM that kveval's plugin extends, calls or replaces."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import ROOT
from support.vllm_source import VLLMSource

from kveval.engines.plugin.emulation import EMULATED_BACKENDS, SPLITS_TOKENS

PLUGIN = sorted((ROOT / "kveval" / "engines" / "plugin").glob("*.py"))
# A vLLM without it has no second model runner, and the plugin goes on without.
OPTIONAL = {"vllm.v1.worker.gpu.sample.logits_processor"}


def imported(path: Path) -> list[tuple[str, str]]:
    """Returns module and name of every ``from vllm... import ...``."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm")]
    return [(str(node.module), alias.name) for node in froms for alias in node.names]


IMPORTS = sorted({pair for path in PLUGIN for pair in imported(path)})


@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_what_the_plugin_imports_is_there(vllm: VLLMSource, module: str, name: str) -> None:
    path = module.removeprefix("vllm").strip(".").replace(".", "/")
    file = next((p for p in (f"{path}.py", f"{path}/__init__.py") if (vllm.root / p).is_file()), None)
    if file is None and module in OPTIONAL:
        pytest.skip(f"this vLLM has no {module}")
    assert file is not None, f"no module {module}"
    assert re.search(rf"\b{name}\b", vllm.text(file)), f"{module} has no {name}"


def test_the_processor_of_the_first_runner(vllm: VLLMSource) -> None:
    path = "v1/sample/logits_processor/interface.py"
    methods = {"validate_params", "is_argmax_invariant", "update_state", "apply"}
    assert methods <= vllm.members(path, "LogitsProcessor")
    assert vllm.parameters(path, "LogitsProcessor", "__init__") == ["vllm_config", "device", "is_pin_memory"]
    assert vllm.parameters(path, "LogitsProcessor", "apply") == ["logits"]
    assert {"removed", "added", "moved"} <= vllm.members(path, "BatchUpdate")


def test_the_processor_of_the_second_runner(vllm: VLLMSource) -> None:
    path = "v1/worker/gpu/sample/logits_processor/interface.py"
    if not (vllm.root / path).is_file():
        pytest.skip("this vLLM has no second runner")
    assert vllm.parameters(path, "LogitsProcessor", "__init__") == ["vllm_config", "req_states"]
    assert vllm.parameters(path, "LogitsProcessor", "add_request") == ["req_idx", "sampling_params"]
    assert vllm.parameters(path, "LogitsProcessor", "apply") == ["logits", "ctx"]
    assert "validate_params" in vllm.members(path, "LogitsProcessor")
    assert "prompt_len" in vllm.members(path, "LogitsProcRequestState")
    assert {"idx_mapping_np", "seq_lens_upper_bound_np"} <= vllm.members(path, "LogitsContext")


def test_logprobs_are_taken_before_processors_run(vllm: VLLMSource) -> None:
    """Forcing changes no probability only as long as the raw ones are kept first."""
    text = vllm.text("v1/sample/sampler.py")
    raw, applied = text.index("raw_logprobs = "), text.index("self.apply_logits_processors(")
    assert raw < applied


@pytest.mark.parametrize("name", EMULATED_BACKENDS)
def test_a_backend_that_is_emulated_is_one(vllm: VLLMSource, name: str) -> None:
    assert name in vllm.members("v1/attention/backends/registry.py", "AttentionBackendEnum")


def test_a_backend_stores_in_a_step_of_its_own(vllm: VLLMSource) -> None:
    """Emulation rounds in `do_kv_cache_update`."""
    update = ["layer", "key", "value", "kv_cache", "slot_mapping"]
    for name, owner in (("flash_attn", "FlashAttentionImpl"), ("cpu_attn", "CPUAttentionBackendImpl")):
        assert vllm.parameters(f"v1/attention/backends/{name}.py", owner, "do_kv_cache_update") == update
    assert "get_impl_cls" in vllm.members("v1/attention/backend.py", "AttentionBackend")


def test_workers_warm_up_in_one_method(vllm: VLLMSource) -> None:
    assert "compile_or_warm_up_model" in vllm.members("v1/worker/worker_base.py", "WorkerBase")


def test_settings_that_divide_tokens_are_there(vllm: VLLMSource) -> None:
    assert set(SPLITS_TOKENS) <= vllm.members("config/parallel.py", "ParallelConfig")


def test_plugins_are_found_by_their_group(vllm: VLLMSource) -> None:
    vllm.says("plugins/__init__.py", "^vllm.general_plugins$")
