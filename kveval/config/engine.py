"""How an engine is launched and asked: the configuration's ``engine`` and ``requests``, flags and environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, StrictFloat, StrictInt

from kveval.config.values import StrictModel

HIDDEN = "(hidden)"
# TOKENIZERS_PARALLELISM and the like are not secrets.
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|KEYS?$|_(PASS|PWD)$", re.IGNORECASE
)
# Before the host of a URL: user and password, or a token.
_USERINFO = re.compile(r"(?<=://)[^/\s]+(?=@)")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables with `HIDDEN` in place of secrets, so that they can be kept and shown.

    A variable that is named like a secret loses its whole value. All others lose the credentials in URLs.
    """
    return {
        name: HIDDEN if _SECRET_NAME.search(name) else _USERINFO.sub(HIDDEN, value)
        for name, value in environment.items()
    }


Environment = Annotated[dict[str, str], PlainSerializer(without_secrets, when_used="json")]

Words = Annotated[list[str | StrictInt | StrictFloat], Field(min_length=1)]
EngineArgs = dict[str, str | int | float | bool | Words | None]
"""Engine flags such as ``{"max-num-seqs": 8}``; true is a bare flag, false is ``--no-...``, a list is several words."""


class EngineConfig(StrictModel):
    """How the engine is launched.

    Attributes:
        name: an engine that `kveval.engines.registry` lists; None for vllm.
        python: interpreter of the environment vLLM lives in; None for the one that runs kveval.
        command: full command in place of ``vllm serve``, before kveval's own flags.
        args: ``vllm serve`` flags for every variant.
        port: None for a free one.
        kv_cache_gib: cache memory on CPU (``VLLM_CPU_KVCACHE_SPACE``); GPU engines take theirs from `args`.
        startup_timeout_s: from launch to a healthy server.
        batch_invariant: compute a request alike in every batch (``VLLM_BATCH_INVARIANT``), where the attention backend
            can. Slower, and repeatable: the A/A run then shows no noise of batching.
    """

    name: str | None = None
    python: Path | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    args: EngineArgs = {}
    env: Environment = {}
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    kv_cache_gib: Annotated[int, Field(gt=0)] = 2
    startup_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    batch_invariant: bool = False


class RequestsConfig(StrictModel):
    """How the engine is asked.

    Attributes:
        timeout_s: one request, from sending to its last token.
        max_attempts: requests sent for one sample before it becomes an ``engine_error``.
        max_in_flight: requests running at once. The KV cache may allow fewer.
        logprobs: top alternatives recorded per output token; 0 records none.
        forced_decode: also record how probable the model finds each right answer: make the engine write it, or read it
            token by token where that cannot be done.
        serving_temperature: temperature at which the model is served, and at which expected scores are computed where
            outputs are forced. None takes the one in the model's generation_config.json, or 1.0 if that names none.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_attempts: Annotated[int, Field(gt=0, le=10)] = 3
    max_in_flight: Annotated[int, Field(gt=0)] = 32
    logprobs: Annotated[int, Field(ge=0, le=20)] = 20
    forced_decode: bool = True
    serving_temperature: Annotated[float, Field(gt=0, le=10)] | None = None


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Returns settings such as ``{"max-num-seqs": 8, "enforce-eager": True}`` as command-line flags.

    False becomes ``--no-...``, as argparse's BooleanOptionalAction reads it. None drops a flag. A list becomes several
    words, a mapping becomes JSON.
    """
    result: list[str] = []
    for name, value in arguments.items():
        flag = "--" + flag_name(name)
        if value is True:
            result.append(flag)
        elif value is False:
            result.append(f"--no-{flag_name(name)}")
        elif isinstance(value, list | tuple):
            result += [flag, *map(str, value)]
        elif value is not None:
            result += [flag, json.dumps(value) if isinstance(value, Mapping) else str(value)]
    return result


def by_flag(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings by the name of their flag: ``{"no_enforce_eager": True}`` as ``{"enforce-eager": False}``."""
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        flag = flag_name(name)
        is_negated = value is True and flag.startswith("no-")
        named[flag.removeprefix("no-") if is_negated else flag] = False if is_negated else value
    return named


def flag_name(name: str) -> str:
    """Returns ``max-num-seqs`` for ``max_num_seqs`` or ``--max-num-seqs``."""
    return name.lstrip("-").replace("_", "-")
