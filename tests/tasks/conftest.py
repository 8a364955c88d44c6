from __future__ import annotations

import pytest
from support.families import ShippedTasks


@pytest.fixture(scope="session")
def tasks() -> ShippedTasks:
    return ShippedTasks()
