from __future__ import annotations

import importlib.resources
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, scored

EMULATED = {"facts": {"storage": "emulated", "emulation": "int8 per_token_head", "kv_capacity_ratio": 1.0}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "night",
        answers={"bf16": scored(0.9), "fp8": scored(0.8), "int8": scored(0.9), "fp8-control": scored(0.9)},
        variants={
            "fp8": {
                "facts": {"storage": "native", "effective_cache_dtype": "fp8_e4m3", "kv_capacity_ratio": 2.0},
                "findings": [{"level": "warning", "code": "scales_1", "message": "scales are all 1.0"}],
            },
            "int8": EMULATED,
            "fp8-control": {"role": "control", "of": "fp8"},
            "nvfp4": {"status": "refused", "reason": "this device cannot", "facts": None},
        },
    )


def missing(what: str) -> None:
    """Skips with a reason; fails where the machine promised a browser."""
    if os.environ.get("KVEVAL_REQUIRE_BROWSER"):
        pytest.fail(f"KVEVAL_REQUIRE_BROWSER is set and {what}")
    pytest.skip(what)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright, whose event loop must not outlive the module."""
    path = os.environ.get("KVEVAL_CHROMIUM") or shutil.which("chromium")
    if path is None:
        missing("there is no chromium on this machine")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as axe-playwright-python ships it."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        missing("the package axe-playwright-python is not installed")
    return importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
