"""Attaches to a server that already runs. It starts nothing and stops nothing."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from kveval.config.endpoint import EndpointConfig
from kveval.engines.base import OnStatus, ServerPlan
from kveval.engines.client.access import Access, AnswerForm, is_other_entry
from kveval.engines.client.dialect import COMPLETIONS
from kveval.engines.openai.facts import attached_facts
from kveval.engines.openai.findings import judge_attached
from kveval.engines.openai.probe import DialectProbe, LostServerError, NoPromptError
from kveval.engines.openai.requests import Requests
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsError
from kveval.memory.measured import expected_ratio
from kveval.models.cache_scheme import checkpoint_cache_dtype
from kveval.run.facts import Facts, Finding

_PROBE = "The harbour was quiet in the early morning."
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)


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
        self._answers_as: Mapping[AnswerForm, str] = {}
        self._refusals: Mapping[str, str] = {}

    @property
    def _whose(self) -> str:
        return f"{self.variant.name}: {self.base_url}"

    @contextlib.asynccontextmanager
    async def _requests(self) -> AsyncIterator[Requests]:
        async with self.access.http(self.base_url, _TIMEOUT) as http:
            yield Requests(http, self._whose, self.access, self._endpoint)

    async def start(self, on_status: OnStatus) -> None:
        on_status("attaching to the server")
        async with self._requests() as requests:
            served = await self._find_model(requests)
            on_status("asking what the server understands")
            probe = self._dialect_probe(requests)
            try:
                dialect = await probe.find()
            except NoPromptError as error:
                raise EngineError(f"{self._whose}: its completion endpoint takes no prompt: {error}") from error
            except LostServerError as error:
                raise EngineError(f"{self._whose}: it no longer answers: {error}") from error
            except (TypeError, AttributeError, LookupError, ValueError) as error:
                raise EngineError(
                    f"{self._whose}: its answers are not those of an OpenAI-compatible server "
                    f"({self.access.message(repr(error))})"
                ) from error
            # Some servers load the model for the first request, and say more of it afterwards.
            self._served = self._same_model(served, await self._find_model(requests))
        self._refusals, self._answers_as = probe.refusals, requests.answers_as
        salt = "kveval-aa" if self.variant.role == "aa" and "cache_salt" not in dialect.unknown_fields else None
        self.access = replace(
            self.access, dialect=dialect, cache_salt=salt, served=self._served, answers_as=self._answers_as
        )

    def _dialect_probe(self, requests: Requests) -> DialectProbe:
        """Returns a probe that sends a short prompt, framed as samples are."""
        prompt_format = self._plan.prompt_format
        # A prompt that the server has not seen, so that nothing of it is in a prefix cache.
        prompt = f"{_PROBE} {uuid.uuid4().hex[:8]}"
        parts = (prompt_format.prefix_ids, prompt_format.encode(prompt), prompt_format.suffix_ids)
        return DialectProbe(
            requests.probe,
            self.model_name,
            [int(token) for part in parts for token in part],
            prompt_format.begins_with_bos,
            prompt_format.spell,
            self._plan.config.requests.logprobs,
        )

    async def _find_model(self, requests: Requests) -> Mapping[str, Any]:
        """Returns what the server says of the model. Raises FactsError if it has others, or too short a window."""
        models = await requests.json("/v1/models")
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

    def _same_model(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
        if is_other_entry(before, now):
            raise FactsError(
                f"{self._whose}/v1/models tells of two models in turn, {dict(before)} and {dict(now)}: several servers "
                "answer at this address; use: the address of one of them"
            )
        return {**before, **now}

    def exit_message(self) -> str | None:
        # Its process cannot be seen from here. Requests tell whether it still answers.
        return None

    def processes(self) -> list[psutil.Process]:
        return []

    async def facts(self) -> Facts:
        async with self._requests() as requests:
            version = await requests.optional("/version")
            metrics = await requests.optional("/metrics")
        whole, streamed = (self._answers_as.get((COMPLETIONS, is_stream)) for is_stream in (False, True))
        facts = attached_facts(
            self.variant,
            self._endpoint,
            self.access.dialect,
            version=version,
            metrics_text=metrics or "",
            served=self._served,
            answers_as=whole or streamed,
            streams_as=streamed,
        )
        texts = {name: self.access.data(value) for name, value in facts if isinstance(value, str)}
        return facts.model_copy(update=texts)

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        model = self._plan.models[self.variant.name]
        expected = expected_ratio(model.config, str(model.path), facts, baseline) if baseline is not None else None
        checkpoint_dtype = checkpoint_cache_dtype(model.path)
        return judge_attached(facts, self.variant, baseline, self._refusals, checkpoint_dtype, expected)

    async def stop(self) -> None:
        """Does nothing: the server is not ours."""
