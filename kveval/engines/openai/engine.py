"""Attaches to a server that already runs. It starts nothing and stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from kveval.config.endpoint import EndpointConfig
from kveval.engines.base import OnStatus, ServerPlan
from kveval.engines.client.access import Access
from kveval.engines.client.events import read_events
from kveval.engines.client.failures import RequestFailedError, redirect_target, retry_after_s, why_unreachable
from kveval.engines.openai.facts import attached_facts
from kveval.engines.openai.findings import judge_attached
from kveval.engines.openai.probe import DialectProbe, NoPromptError, Reply
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsError
from kveval.run.facts import Facts, Finding

_PROBE = "The harbour was quiet in the early morning."
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
# Limit of all waits of one probe.
_MAX_RATE_LIMIT_SECONDS = 120.0
_DEFAULT_RETRY_SECONDS = 2.0
# A later attempt may succeed: too many requests, and a gateway's errors.
_PASSING = (429, 502, 503, 504)


class AttachedEngine:
    """One server that somebody else runs.

    Raises:
        ConfigError: the environment variable for the endpoint's key is not set.
    """

    def __init__(self, plan: ServerPlan, variant: ResolvedVariant, endpoint: EndpointConfig) -> None:
        self.variant = variant
        self.base_url = endpoint.url
        self.model_name = endpoint.model
        self.access = Access(endpoint.api_key(f"variants.{variant.name}.endpoint"), endpoint.ca_file)
        self.forced_results: Path | None = None
        self._endpoint = endpoint
        self._plan = plan
        self._served: Mapping[str, Any] = {}
        self._answers_as: str | None = None

    @property
    def _whose(self) -> str:
        return f"{self.variant.name}: {self.base_url}"

    def _http(self) -> httpx.AsyncClient:
        return self.access.http(self.base_url, _TIMEOUT)

    async def start(self, on_status: OnStatus) -> None:
        on_status("attaching to the server")
        async with self._http() as http:
            self._served = await self._find_model(http)
            on_status("asking what the server understands")
            probe = self._dialect_probe(http)
            try:
                dialect = await probe.find()
            except NoPromptError as error:
                raise EngineError(f"{self._whose}: its completion endpoint takes no prompt: {error}") from error
            except (TypeError, AttributeError, LookupError, ValueError) as error:
                raise EngineError(
                    f"{self._whose}: its answers are not those of an OpenAI-compatible server "
                    f"({self.access.message(repr(error))})"
                ) from error
        salt = "kveval-aa" if self.variant.role == "aa" and "cache_salt" not in dialect.unknown_fields else None
        self.access = replace(
            self.access, dialect=dialect, cache_salt=salt, served=self._served, answers_as=self._answers_as
        )

    def _dialect_probe(self, http: httpx.AsyncClient) -> DialectProbe:
        """Returns a probe that sends a short prompt, framed as samples are."""
        prompt_format = self._plan.prompt_format
        parts = (prompt_format.prefix_ids, prompt_format.encode(_PROBE), prompt_format.suffix_ids)
        return DialectProbe(
            lambda path, body: self._probe(http, path, body),
            self.model_name,
            [int(token) for part in parts for token in part],
            prompt_format.begins_with_bos,
            prompt_format.spell,
            self._plan.config.requests.logprobs,
        )

    async def _find_model(self, http: httpx.AsyncClient) -> Mapping[str, Any]:
        """Returns what the server says of the model. Raises FactsError if it has others, or too short a window."""
        models = await self._json(http, "/v1/models")
        entry = self.access.entry_of(models, self.model_name)
        if entry is None:
            data = models.get("data") if isinstance(models, Mapping) else None
            names = [one.get("id") for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
            listed = ", ".join(self.access.message(name, 200) for name in names[:10])
            raise FactsError(
                f"{self._whose} has no model {self.model_name!r} (endpoint.model); use: "
                f"{listed or 'a server that lists its models at /v1/models'}"
            )
        window = entry.get("max_model_len") or self._endpoint.declared.max_model_len
        if isinstance(window, int) and window < self._plan.max_model_len:
            raise FactsError(
                f"{self._whose} takes {window} tokens (max_model_len), the longest prompt with its output needs "
                f"{self._plan.max_model_len}; use: lower context_lengths, or a server that takes them"
            )
        return entry

    async def _json(self, http: httpx.AsyncClient, path: str) -> Any:
        response = await self._send(http, "GET", path)
        if response.status_code != httpx.codes.OK:
            raise EngineError(f"{self._whose}{path}: HTTP {response.status_code}; use: an OpenAI-compatible server")
        try:
            return response.json()
        except ValueError as error:
            raise EngineError(f"{self._whose}{path}: not JSON; use: an OpenAI-compatible server") from error

    async def _send(self, http: httpx.AsyncClient, method: str, path: str, body: Any = None) -> httpx.Response:
        """Sends one request. Waits while the server is overloaded or still starting."""
        waited = 0.0
        while True:
            try:
                response = await http.request(method, path, json=body)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from error
            target = redirect_target(response)
            if target is not None:
                raise EngineError(
                    f"{self._whose} sends to another address, {self.access.message(target)}, and the key is not sent "
                    "there; use: that address as endpoint.url"
                )
            if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise EngineError(
                    f"{self._whose}: HTTP {response.status_code}, "
                    + (
                        f"the key in {self._endpoint.api_key_env} is not accepted"
                        if self.access.api_key
                        else "it wants a key; set endpoint.api_key_env to the variable that holds it"
                    )
                )
            if response.status_code not in _PASSING:
                return response
            wait = retry_after_s(response) or _DEFAULT_RETRY_SECONDS
            if waited + wait > _MAX_RATE_LIMIT_SECONDS:
                raise EngineError(
                    f"{self._whose}: HTTP {response.status_code} for {waited:.0f} s, and it says to wait {wait:.0f} s; "
                    "use: a server with capacity for a sweep"
                )
            waited += wait
            await asyncio.sleep(wait)

    async def _probe(self, http: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> Reply:
        response = await self._send(http, "POST", path, body)
        if response.status_code != httpx.codes.OK:
            return Reply([], self.access.message(f"HTTP {response.status_code}: {response.text}"))
        try:
            events = [event async for objects in read_events(response) for event in objects]
        except RequestFailedError as error:
            return Reply([], self.access.message(error))
        self._answers_as = self._answers_as or next(
            (self.access.data(event["model"]) for event in events if isinstance(event.get("model"), str)), None
        )
        return Reply(events)

    def exit_message(self) -> str | None:
        # Its process cannot be seen from here. Requests tell whether it still answers.
        return None

    def processes(self) -> list[psutil.Process]:
        return []

    async def facts(self) -> Facts:
        async with self._http() as http:
            version = await self._optional(http, "/version")
            metrics = await self._optional(http, "/metrics")
        facts = attached_facts(
            self.variant,
            self._endpoint,
            self.access.dialect,
            version=version,
            metrics_text=metrics or "",
            served=self._served,
            answers_as=self._answers_as,
        )
        texts = {name: self.access.data(value) for name, value in facts if isinstance(value, str)}
        return facts.model_copy(update=texts)

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        return judge_attached(facts, self.variant, baseline)

    async def _optional(self, http: httpx.AsyncClient, path: str) -> str | None:
        """Returns what not every server has, or None."""
        try:
            response = await http.get(path)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        return response.text if response.status_code == httpx.codes.OK else None

    def _unreachable(self, error: httpx.HTTPError) -> EngineError:
        return EngineError(f"{self._whose}: {self.access.message(why_unreachable(error, self.base_url))}")

    async def stop(self) -> None:
        """Does nothing: the server is not ours."""
