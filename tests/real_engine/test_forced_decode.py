"""Forced decode on a real vLLM server: its probabilities are the model's own, by three other ways to get them."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
import pytest_asyncio
from support.processor import ENGINE_ARGS, UNQUANTIZED, needs_avx512

from kveval.config.engine import EngineConfig, RequestsConfig
from kveval.config.variant import VariantConfig
from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.reading.forced import ForcedDecoder
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.tasks.assembly.prompt import PromptFormat

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

TEXT = " ".join(f"Room {n} is painted {colour}." for n, colour in enumerate(["red", "blue", "green", "white"] * 12))
QUESTION = "Which colour has room 9? Answer with one word."


@dataclass(frozen=True)
class Served:
    engine: VLLMEngine
    client: Client
    prompt: np.ndarray
    prompt_format: PromptFormat

    def decoder(self, temperature: float = 1.0) -> ForcedDecoder:
        assert self.engine.forced_results is not None
        return ForcedDecoder(self.client, self.engine.forced_results, temperature)

    def ids(self, text: str) -> list[int]:
        return [int(token) for token in self.prompt_format.encode(text)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(one_engine: None, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    engine = VLLMEngine(
        ResolvedVariant("bf16", VariantConfig(name="bf16", kv_cache_dtype=UNQUANTIZED), UNQUANTIZED, None, "baseline"),
        config=EngineConfig(kv_cache_gib=1, args=ENGINE_ARGS),
        installation=find_vllm(EngineConfig()),
        model=smollm2,
        max_model_len=2048,
        logprobs=20,
        forces=True,
        log_path=tmp_path_factory.mktemp("forced") / "engine.log",
    )
    prompt_format = PromptFormat.load(smollm2)
    body = prompt_format.encode(f"{TEXT}\n\n{QUESTION}")
    prompt = np.concatenate((prompt_format.prefix_ids, body, prompt_format.suffix_ids))
    try:
        await engine.start(lambda _: None)
        async with Client(engine.base_url, engine.model_name, RequestsConfig(), engine.exit_message) as client:
            yield Served(engine, client, prompt, prompt_format)
    finally:
        await engine.stop()


async def test_an_output_forced_to_itself_keeps_its_probabilities(served: Served) -> None:
    await served.client.ask(EngineRequest(served.prompt, 1))  # a cold prompt rounds differently from a cached one
    greedy = await served.client.ask(EngineRequest(served.prompt, 24, ignore_eos=True))
    result = await served.decoder().force(served.prompt, greedy.output_token_ids)
    own = [
        dict(zip(ids, values, strict=True))[token]
        for token, ids, values in zip(greedy.output_token_ids, greedy.top_ids, greedy.top_logprobs, strict=True)
    ]
    np.testing.assert_allclose(result.logprobs, own, atol=1e-5)
    assert result.argmax_ids.tolist() == greedy.output_token_ids


@pytest.mark.parametrize("temperature", [1.0, 0.6])
async def test_probabilities_are_those_of_a_forward_pass(served: Served, smollm2: Path, temperature: float) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    target = served.ids("The colour of room 9 is blue, and room 10 is green.")
    result = await served.decoder(temperature).force(served.prompt, target)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([[*served.prompt.tolist(), *target]])).logits[0, len(served.prompt) - 1 : -1]
    reference = torch.log_softmax(logits / temperature, -1)[torch.arange(len(target)), torch.tensor(target)].numpy()
    # vLLM computes in bfloat16, with eight bits of mantissa: logits near 20 are exact to 0.1.
    assert np.abs(result.logprobs - reference).max() < 0.35
    assert np.abs(result.logprobs - reference).mean() < 0.08


@needs_avx512
async def test_a_probability_is_how_often_free_sampling_chooses_the_token(served: Served) -> None:
    # Without a seed: vLLM 0.32 on CPU dies of a seeded request whose prompt is computed in chunks.
    words = served.ids("The colour of room 9 is")
    prompt = np.concatenate((served.prompt, np.array(words, np.int32)))
    draws, temperature = 4000, 0.8
    async with httpx.AsyncClient(base_url=served.engine.base_url, timeout=600) as http:
        answers = await asyncio.gather(
            *(
                http.post(
                    "/v1/completions",
                    json={
                        "model": "kveval", "prompt": prompt.tolist(), "max_tokens": 1, "temperature": temperature,
                        "n": 100, "logprobs": 0, "return_tokens_as_token_ids": True,
                    },
                )
                for _ in range(draws // 100)
            )
        )  # fmt: skip
    drawn = [
        int(one["logprobs"]["tokens"][0].removeprefix("token_id:")) for a in answers for one in a.json()["choices"]
    ]
    assert len(drawn) == draws
    tokens = sorted(set(drawn), key=drawn.count)[-3:]
    for token in tokens:
        result = await served.decoder(temperature).force(prompt, [token])
        p = float(np.exp(result.logprobs[0]))
        # Four standard errors, and what bfloat16 moves between batches.
        assert drawn.count(token) / draws == pytest.approx(p, abs=4 * (p * (1 - p) / draws) ** 0.5 + 0.01)


async def test_forced_and_free_requests_share_a_batch(served: Served) -> None:
    free = EngineRequest(served.prompt, 24, ignore_eos=True)
    target = served.ids(" seven violet umbrellas")
    answers = await asyncio.gather(
        *(served.client.ask(free) for _ in range(3)), *(served.decoder().force(served.prompt, target) for _ in range(3))
    )
    texts, results = answers[:3], answers[3:]
    # Batches of other sizes round differently, so free outputs may part. None of them writes what others are forced to.
    for one in texts:
        assert len(one.output_token_ids) == 24
        assert one.output_token_ids[: len(target)] != target
    for one in results:
        np.testing.assert_allclose(one.logprobs, results[0].logprobs, atol=0.1)
        assert one.argmax_ids.tolist() != target


async def test_a_cancelled_request_leaves_the_engine_as_it_was(served: Served) -> None:
    target = served.ids("red green blue " * 100)
    forcing = asyncio.create_task(served.decoder().force(served.prompt, target))
    await asyncio.sleep(1.0)
    forcing.cancel()
    result = await served.decoder().force(served.prompt, target[:4])
    assert np.isfinite(result.logprobs).all()
    assert served.engine.exit_message() is None


async def test_what_a_server_is_asked_to_force_is_checked_before_it_runs(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.engine.base_url, timeout=60) as http:
        for xargs in (
            {"kveval_targets": [-1], "kveval_result": "0" * 32},
            {"kveval_targets": [5], "kveval_result": "../x"},
        ):
            body = {"model": "kveval", "prompt": [1, 2], "max_tokens": 1, "vllm_xargs": xargs}
            assert (await http.post("/v1/completions", json=body)).status_code == 400
