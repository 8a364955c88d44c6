from __future__ import annotations

import importlib.resources
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


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
