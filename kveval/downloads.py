"""Caches pinned packages: fetched once, checked by sha256, then used offline."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

from kveval.errors import DataError, StorageError
from kveval.run.storage import storage


def cache_directory() -> Path:
    """Returns ``KVEVAL_CACHE``, else ``XDG_CACHE_HOME``/kveval, else ~/.cache/kveval."""
    if own := os.environ.get("KVEVAL_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "kveval"
    return Path.home() / ".cache" / "kveval"


def wheel_path(name: str, version: str) -> Path:
    """Returns where the cache keeps a wheel, whether it is fetched or not."""
    return cache_directory() / "wheels" / f"{name}-{version}.whl"


def fetch_wheel(name: str, version: str, sha256: str) -> Path:
    """Returns the wheel of a pinned package. Downloads it with pip, from the index that pip is configured with.

    The cache holds only whole and verified files. Processes that want the same one wait for each other.

    Raises:
        DataError: the index does not have it, or has another file.
        StorageError: the cache cannot be written.
    """
    path = wheel_path(name, version)
    if path.is_file() and file_sha256(path) == sha256:
        return path
    with storage(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if path.is_file() and file_sha256(path) == sha256:
                return path
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as directory:
                wheel = _download(name, version, Path(directory))
                found = file_sha256(wheel)
                if found != sha256:
                    raise DataError(
                        f"{name}=={version}: sha256 {found} of the downloaded file differs from the pinned {sha256}"
                    )
                os.replace(wheel, path)
    return path


def _download(name: str, version: str, directory: Path) -> Path:
    pinned = f"{name}=={version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", f"--dest={directory}", pinned]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(directory.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = done.stderr + done.stdout
    if "No space left on device" in said:
        raise StorageError(f"{directory.parent}: the disk is full; free some space")
    reasons = [line for line in said.splitlines() if line.startswith("ERROR") or "No module named pip" in line]
    raise DataError(
        f"{pinned} could not be downloaded by {sys.executable} -m pip: "
        f"{reasons[-1].removeprefix('ERROR: ') if reasons else f'exit code {done.returncode}'}"
    )


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
