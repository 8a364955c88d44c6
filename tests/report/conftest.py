from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# `make_run` writes the synthetic runs of the judge's tests too.
sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))


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
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, from npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4"]
    fetched = subprocess.run(command, capture_output=True, text=True, timeout=300)
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        pytest.skip(f"axe-core cannot be fetched: {fetched.stderr.strip()[-200:]}")
    return source.read_text(encoding="utf-8")
