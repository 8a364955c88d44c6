"""Sweeps of servers that somebody else runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.scripted import Reply
from support.scripted_endpoint import answering, tokenizer_of, two_servers
from support.sweeps import Planner, Servers, endpoint

from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.measure.plan.plan import Plan


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.openai.requests._DEFAULT_RETRY_SECONDS", 0.01)


@pytest.fixture
def installation() -> Any:
    """No vLLM anywhere."""
    return NOTHING_TO_LAUNCH


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    """One for the baseline and one for the candidate, up; their handlers are set by `plan_for`."""
    async with two_servers(lambda *_: Reply("hello there")) as both:
        yield both


@pytest.fixture
def plan_for(plan_of: Planner, servers: Servers) -> Planner:
    """A plan of both servers; `f16` and `q8` are further keys of their endpoints."""

    def plan(f16: dict[str, Any] | None = None, q8: dict[str, Any] | None = None, **changes: Any) -> Plan:
        variants = [
            {"name": "f16", "endpoint": endpoint(servers["f16"], **(f16 or {}))},
            {"name": "q8", "kv_cache_dtype": "q8_0", "endpoint": endpoint(servers["q8"], **(q8 or {}))},
        ]
        made = plan_of(**{"variants": variants, "baseline": "f16", **changes})
        for server in servers.values():
            server.handler = answering(made)
            server.tokenize = tokenizer_of(made)
        return made

    return plan
