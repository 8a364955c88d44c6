"""Texts are forced on a server, and nothing that is not the engine's own word becomes a probability."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forcing import forcing
from support.scripted import Reply, ScriptedServer, always
from support.sweeps import Planner

from kveval.config.engine import RequestsConfig
from kveval.engines.client.client import Client
from kveval.engines.reading.forced import ForcedDecoder, why_not_forced
from kveval.engines.reading.reader import ForcedDecodeError
from kveval.engines.vllm.engine import open_vllm

PROMPT = np.array([1, 2, 3], np.int32)
Force = Callable[[dict[str, Any]], str]


async def force(folder: Path, answers: Force, token_ids: list[int]) -> list[float]:
    async with ScriptedServer(always(Reply("free"))) as server:
        server.force = answers
        async with Client(server.base_url, "kveval", RequestsConfig(max_attempts=1), lambda: None) as client:
            return (await ForcedDecoder(client, folder, 0.7).force(PROMPT, token_ids)).logprobs.tolist()


async def check(folder: Path, answers: Force | None, **requests: Any) -> str | None:
    async with ScriptedServer(always(Reply("free"))) as server:
        server.force = answers
        async with Client(server.base_url, "kveval", RequestsConfig(**requests), lambda: None) as client:
            return await ForcedDecoder(client, folder, 1.0).check(PROMPT, [5, 6, 7])


async def test_the_probabilities_are_those_the_processor_left(tmp_path: Path) -> None:
    assert await force(tmp_path, forcing(tmp_path, lambda token: -token / 8), [4, 2]) == [-0.5, -0.25]
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240


async def test_a_logit_that_is_not_a_number_is_a_result_and_not_the_end_of_the_text(tmp_path: Path) -> None:
    found = await force(tmp_path, forcing(tmp_path, lambda token: np.nan if token == 2 else -0.5), [4, 2, 4])
    np.testing.assert_array_equal(found, [-0.5, np.nan, -0.5])


async def test_an_answer_without_numbers_whose_result_has_them_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(ForcedDecodeError, match="non-finite") as caught:
        await force(tmp_path, forcing(tmp_path, reported=lambda _: np.nan), [4, 2])
    assert caught.value.kind == "non_finite"


async def test_other_tokens_are_read_at_the_ids_that_another_engine_found(tmp_path: Path) -> None:
    logits = np.random.default_rng(0).standard_normal((2, 9))
    rows = {4: logits[0], 2: logits[1]}
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    async with ScriptedServer(always(Reply("free"))) as server:
        server.force = forcing(tmp_path, reported=lambda _: -1.0, logits=lambda token: rows[token])
        async with Client(server.base_url, "kveval", RequestsConfig(max_attempts=1), lambda: None) as client:
            decoder = ForcedDecoder(client, tmp_path, 1.0)
            kept = await decoder.force(PROMPT, [4, 2], top_k=3)
            ids = np.array([[8, 0], [1, 5]], np.int32)
            read = await decoder.force(PROMPT, [4, 2], read_ids=ids)
    assert kept.top_ids is not None
    assert kept.top_ids.tolist() == np.argsort(-logits, axis=1)[:, :3].tolist()
    assert read.read_logprobs is not None
    np.testing.assert_allclose(read.read_logprobs, np.take_along_axis(logprobs, ids, axis=1), rtol=1e-5)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"writes": lambda ids: [ids[0], *[1] * (len(ids) - 1)]}, "not_forced"), ({"leaves_result": False}, "no_result")],
)
async def test_what_was_not_forced_has_no_probability(tmp_path: Path, options: dict[str, Any], kind: str) -> None:
    with pytest.raises(ForcedDecodeError) as raised:
        await force(tmp_path, forcing(tmp_path, **options), [4, 2])
    assert raised.value.kind == kind


async def test_a_failed_request_keeps_its_kind(tmp_path: Path) -> None:
    with pytest.raises(ForcedDecodeError) as raised:
        await force(tmp_path, lambda _: 'data: {"error": {"message": "no"}}\n\n', [4])
    assert raised.value.kind == "http_500"


async def test_forcing_that_works_is_found_to_work(tmp_path: Path) -> None:
    assert await check(tmp_path, forcing(tmp_path)) is None


async def test_it_is_checked_even_if_no_logprobs_are_recorded(tmp_path: Path) -> None:
    assert await check(tmp_path, forcing(tmp_path), logprobs=0) is None


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (lambda _: None, "wrote 'free' instead of the reference"),
        (lambda folder: forcing(folder, reported=lambda _: -0.6), "differ from those it reports by 0.1 nats"),
        (lambda folder: forcing(folder, lambda _: float("nan"), reported=lambda _: -0.5), "differ .* by nan nats"),
        (lambda folder: forcing(folder, leaves_result=False), "left no result"),
    ],
)
async def test_forcing_that_does_not_work_says_why(
    tmp_path: Path, answers: Callable[[Path], Force | None], words: str
) -> None:
    assert re.search(words, str(await check(tmp_path, answers(tmp_path))))


@pytest.mark.parametrize(
    ("changes", "sees_plugin", "why"),
    [
        ({}, True, None),
        ({"engine": {"args": {"logits_processors": "mine:Own"}}}, True, "arguments say which logits processors"),
        ({}, False, "kveval's plugin was not seen in the engine's environment; use: "),
    ],
)
def test_an_engine_loads_the_processor_or_somebody_hears_why_not(
    plan_of: Planner, tmp_path: Path, changes: dict[str, Any], sees_plugin: bool, why: str | None
) -> None:
    plan = plan_of(**changes)
    plan = dataclasses.replace(plan, installation=dataclasses.replace(plan.installation, has_forced_decode=sees_plugin))
    found = why_not_forced(plan, plan.variants[0])
    command = open_vllm(plan, plan.variants[0], tmp_path / "log").command(1)
    assert any("forced_decode:ForcedDecode" in word for word in command) == (why is None)
    assert (found is None) if why is None else why in str(found)


def test_an_engine_that_nothing_is_forced_on_gets_no_processor(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(requests={"forced_decode": False})
    assert "--logits-processors" not in open_vllm(plan, plan.variants[0], tmp_path / "log").command(1)
