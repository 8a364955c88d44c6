"""Sends the requests with which kveval gets to know a server that already runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from kveval.config.endpoint import EndpointConfig
from kveval.engines.client.access import Access, AnswerForm
from kveval.engines.client.events import is_event_stream, read_events
from kveval.engines.client.failures import (
    RequestFailedError,
    http_failure,
    redirect_target,
    retry_after_s,
    why_unanswered,
    why_unreachable,
)
from kveval.engines.openai.probe import Reply
from kveval.errors import EngineError

# Limit of all waits of one request.
_MAX_RATE_LIMIT_SECONDS = 120.0
_DEFAULT_RETRY_SECONDS = 2.0
# A later attempt may succeed: too many requests, and a gateway's errors.
_PASSING = (429, 502, 503, 504)
_GATEWAY = (502, 503, 504)
# Limit of all waits for a gateway, once the server behind it has answered.
_MAX_GATEWAY_SECONDS = 6.0


class Requests:
    """Requests to one server.

    Args:
        whose: the variant and the address, for messages.

    Attributes:
        answers_as: what the server calls the model in its answers.
    """

    def __init__(self, http: httpx.AsyncClient, whose: str, access: Access, endpoint: EndpointConfig) -> None:
        self.answers_as: dict[AnswerForm, str] = {}
        self._http = http
        self._whose = whose
        self._access = access
        self._endpoint = endpoint
        self._has_answered = False

    async def json(self, path: str) -> Any:
        """Returns what every server has at `path`. Raises EngineError if this one does not."""
        try:
            response = await self._send("GET", path)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.status_code != httpx.codes.OK:
            raise EngineError(f"{self._whose}{path}: HTTP {response.status_code}; use: an OpenAI-compatible server")
        try:
            return response.json()
        except ValueError as error:
            raise EngineError(f"{self._whose}{path}: not JSON; use: an OpenAI-compatible server") from error

    async def optional(self, path: str) -> str | None:
        """Returns what not every server has at `path`, or None. Raises EngineError if the server is gone."""
        try:
            response = await self._http.get(path)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._unreachable(error) from error
        except httpx.HTTPError:
            return None
        return response.text if response.status_code == httpx.codes.OK else None

    async def probe(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Returns what the server answers, or why it does not. Raises EngineError if it refuses every request."""
        try:
            response = await self._send_again(path, body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._unreachable(error) from error
        except httpx.HTTPError as error:
            return Reply([], self._access.message(why_unanswered(error)), is_lost=True)
        if response.status_code != httpx.codes.OK:
            words = self._access.message(http_failure(response))
            return Reply([], words, is_lost=response.status_code in _GATEWAY)
        try:
            events = [event async for objects in read_events(response) for event in objects]
        except RequestFailedError as error:
            return Reply([], self._access.message(error))
        self._has_answered = True
        names = (event["model"] for event in events if isinstance(event.get("model"), str))
        name = next(filter(None, names), None)
        if name:
            self.answers_as.setdefault((path, is_event_stream(response)), self._access.data(name))
        return Reply(events)

    async def _send_again(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        try:
            return await self._send("POST", path, body)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            # A server may close a connection that it kept open just when a request is sent on it.
            return await self._send("POST", path, body)

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Sends one request. Waits while the server is overloaded or still starting.

        Once the server has answered a request, what it refuses is that request only.
        """
        waited = 0.0
        while True:
            response = await self._http.request(method, path, json=body)
            refusal = None if self._has_answered else self._refusal(response)
            if refusal is not None:
                raise EngineError(f"{self._whose}{refusal}")
            if response.status_code not in _PASSING:
                return response
            wait = retry_after_s(response) or _DEFAULT_RETRY_SECONDS
            is_reached = self._has_answered and response.status_code in _GATEWAY
            if is_reached and waited + wait > _MAX_GATEWAY_SECONDS:
                return response
            if waited + wait > _MAX_RATE_LIMIT_SECONDS:
                raise EngineError(
                    f"{self._whose}: HTTP {response.status_code} for {waited:.0f} s, and it says to wait {wait:.0f} s; "
                    "use: a server with capacity for a sweep"
                )
            waited += wait
            await asyncio.sleep(wait)

    def _refusal(self, response: httpx.Response) -> str | None:
        """Returns why the server refuses every request. None if it does not."""
        target = redirect_target(response)
        if target is not None:
            return (
                f" sends to another address, {self._access.message(target)}, and the key is not sent there; use: that "
                "address as endpoint.url"
            )
        if response.status_code not in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return None
        if self._access.api_key:
            return f": HTTP {response.status_code}, the key in {self._endpoint.api_key_env} is not accepted"
        return f": HTTP {response.status_code}, it wants a key; set endpoint.api_key_env to the variable that holds it"

    def _unreachable(self, error: httpx.HTTPError) -> EngineError:
        base_url = str(self._http.base_url)
        return EngineError(f"{self._whose}: {self._access.message(why_unreachable(error, base_url))}")
