"""What kveval reads of vLLM, checked against the source of the installed one. Nothing of it is imported."""

from __future__ import annotations

import pytest
from support.vllm_source import VLLMSource, installed_source


@pytest.fixture(scope="session")
def vllm() -> VLLMSource:
    root = installed_source()
    if root is None:
        pytest.skip("no vLLM in this environment")
    return VLLMSource(root)
