"""Lets lm-eval's tasks load data from the Hugging Face hub, and fail soon where the hub cannot be reached."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

_PROBE_SECONDS = 5.0
_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE")
# Libraries read the variables once, when they are imported, and keep the switch here.
_FLAGS = (
    ("huggingface_hub.constants", "HF_HUB_OFFLINE"),
    ("datasets.config", "HF_HUB_OFFLINE"),
    ("datasets.config", "HF_DATASETS_OFFLINE"),
    ("evaluate.config", "HF_EVALUATE_OFFLINE"),
)
_HUB_MODULES = ("huggingface_hub", "httpx", "requests", "urllib3", "aiohttp", "datasets.exceptions")


def hub_endpoint() -> str:
    """Returns the hub's address, which HF_ENDPOINT may change."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


@contextmanager
def hub_bounded() -> Iterator[str]:
    """Makes everything inside use local caches alone when the hub does not answer within seconds.

    Otherwise the libraries retry for half a minute or more per file. An environment that says offline counts too, even
    if libraries were imported before it said so. Yields the hub's address.
    """
    offline = any(os.environ.get(name, "0").upper() in ("1", "ON", "YES", "TRUE") for name in _SWITCHES)
    if not offline and _answers():
        yield hub_endpoint()
        return
    variables = {name: os.environ.get(name) for name in _SWITCHES}
    flags = [
        (module, flag, getattr(sys.modules[module], flag))
        for module, flag in _FLAGS
        if hasattr(sys.modules.get(module), flag)
    ]
    os.environ.update(dict.fromkeys(_SWITCHES, "1"))
    for module, flag, _ in flags:
        setattr(sys.modules[module], flag, True)
    try:
        yield hub_endpoint()
    finally:
        for name, value in variables.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        for module, flag, value in flags:
            setattr(sys.modules[module], flag, value)


def _answers() -> bool:
    try:
        httpx.head(hub_endpoint(), timeout=_PROBE_SECONDS)
    except httpx.HTTPError:
        return False
    return True


def needs_hub(error: BaseException) -> bool:
    """Returns whether an error, or one that caused it, came from looking for something on the hub."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, ConnectionError) or type(current).__module__.startswith(_HUB_MODULES):
            return True
        current = current.__cause__ or current.__context__
    return False
