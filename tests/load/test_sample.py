from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kveval.load.sample import device_bytes


def test_gpu_memory_is_that_of_the_engines_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = psutil.Process()
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{own.pid}, 1000\\n{own.pid}, 24\\n1, 5000\\n{own.pid}, [N/A]\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert device_bytes([own]) == 1024 << 20
    assert device_bytes([]) is None
    program.write_text("#!/bin/sh\nexit 9\n")
    assert device_bytes([own]) is None
