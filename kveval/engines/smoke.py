"""Asks a few questions before the first sample: does the engine answer, and do its answers make sense?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.request import EngineRequest
from kveval.run.facts import Facts, Finding
from kveval.run.manifest import SmokeResult
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.sample import Prompt

_PASSAGE = (
    "The harbour was quiet in the early morning. Fishing boats lay side by side along the stone wall, and a few "
    "men sat on the deck mending their nets. Behind them the town was waking up: a baker opened his shop, children "
    "walked to school, and the first train of the day left the station for the city."
)
# A working language model has a perplexity of tens on plain English. Guessing any token has tens of thousands.
_GARBAGE_PERPLEXITY = 1000.0
_GARBAGE_RATIO = 10.0
OUTPUT_TOKENS = 16


def plain_prompt(prompt_format: PromptFormat) -> Prompt:
    """Returns a short passage of plain English, framed as samples are, for a measurement without samples."""
    shared = np.concatenate((prompt_format.prefix_ids, prompt_format.encode(_PASSAGE)))
    return Prompt(shared, prompt_format.suffix_ids)


def pick_prompt(prompts: Sequence[Prompt], facts: Facts) -> Prompt:
    """Returns the shortest prompt that needs more than one prefill chunk, or else the longest prompt."""
    chunk = facts.max_num_batched_tokens or (2048 if facts.device == "cpu" else 8192)
    by_length = sorted(prompts, key=len)
    return next((prompt for prompt in by_length if len(prompt) > chunk), by_length[-1])


async def smoke(
    client: Client, prompts: Sequence[Prompt], facts: Facts, baseline_perplexity: float | None
) -> tuple[SmokeResult, list[Finding]]:
    """Asks one of `prompts` twice, and the perplexity of plain English. Returns answers and what is wrong."""
    prompt = pick_prompt(prompts, facts)
    perplexity, findings = await _read(client, baseline_perplexity)
    request = EngineRequest(prompt.token_ids(), OUTPUT_TOKENS, cache_salt="kveval-smoke")
    first, second = await client.ask(request), await client.ask(request)
    problems = [
        _problem(answer) or (_miscounted(answer) if client.access.served is not None else None)
        for answer in (first, second)
    ]
    problem = next(filter(None, problems), None)
    findings += [_failed(f"a prompt of {len(prompt)} tokens: {problem}")] if problem else _repeat(first, second, facts)
    result = SmokeResult(
        prompt_tokens=len(prompt),
        perplexity=perplexity,
        output=first.text,
        cached_tokens_of_repeat=second.cached_tokens,
    )
    return result, findings


async def _read(client: Client, baseline: float | None) -> tuple[float | None, list[Finding]]:
    # A server that gives no logprobs of a text has a finding for that already.
    if client.access.dialect.perplexity is None:
        return None, []
    try:
        perplexity = round(await client.perplexity(_PASSAGE), 4)
    except RequestFailedError as error:
        return None, [_failed(f"plain text could not be read: {error}")]
    if perplexity > _GARBAGE_PERPLEXITY:
        return perplexity, [_failed(f"perplexity {perplexity:.0f} on plain English: the model does not read")]
    if baseline is not None and perplexity > baseline * _GARBAGE_RATIO:
        message = f"perplexity {perplexity:.0f} on plain English, the baseline has {baseline:.0f}"
        return perplexity, [_failed(message)]
    return perplexity, []


def _repeat(first: EngineAnswer, second: EngineAnswer, facts: Facts) -> list[Finding]:
    findings = []
    if (first.output_token_ids, first.text) != (second.output_token_ids, second.text):
        message = "the same question got two different answers; the second came from the prefix cache"
        findings.append(Finding.warning("smoke_repeat_differs", message))
    if second.cached_tokens == 0 and facts.prefix_caching:
        findings.append(Finding.warning("no_prefix_hit", "a repeated prompt was not found in the prefix cache"))
    return findings


def _problem(answer: EngineAnswer) -> str | None:
    if answer.error_kind:
        return f"{answer.error_kind}: {answer.error_message}"
    if not answer.output_token_ids and not answer.text:
        return "the answer is empty"
    if len(answer.output_token_ids) == OUTPUT_TOKENS and len(set(answer.output_token_ids)) == 1:
        return f"the answer is one token over and over: {answer.text[:40]!r}"
    if not answer.output_token_ids and len(answer.text) >= OUTPUT_TOKENS and _repeats(answer.text):
        return f"the answer is one piece over and over: {answer.text[:40]!r}"
    return None


def _miscounted(answer: EngineAnswer) -> str | None:
    if answer.prompt_tokens in (None, answer.sent_tokens):
        return None
    return f"the server counts {answer.prompt_tokens} tokens in it: it has another tokenizer, or changes the prompt"


def _repeats(text: str) -> bool:
    words = text.split()
    return len(set(text.strip())) == 1 or (len(words) > OUTPUT_TOKENS // 2 and len(set(words)) == 1)


def _failed(message: str) -> Finding:
    return Finding.error("smoke_failed", message)
