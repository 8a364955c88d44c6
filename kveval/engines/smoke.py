"""A few questions before the first sample: does this engine answer at all, and in its right mind?"""

from __future__ import annotations

from typing import Any

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.request import EngineRequest
from kveval.run.facts import Facts
from kveval.run.findings import Finding
from kveval.tasks.task import Sample

_PASSAGE = (
    "The harbour was quiet in the early morning. Fishing boats lay side by side along the stone wall, and a few "
    "men sat on the deck mending their nets. Behind them the town was waking up: a baker opened his shop, children "
    "walked to school, and the first train of the day left the station for the city."
)
# Plain English costs a working language model a perplexity of tens; a uniform guess over its vocabulary, tens of
# thousands.
_GARBAGE_PERPLEXITY = 1000.0
_GARBAGE_RATIO = 10.0
_DEFAULT_CHUNK_TOKENS = {"cpu": 2048}
_OTHER_CHUNK_TOKENS = 8192
OUTPUT_TOKENS = 16


def pick_sample(samples: list[Sample], facts: Facts) -> Sample:
    """The shortest prompt that is prefilled in more than one chunk, or else the longest."""
    chunk = facts.max_num_batched_tokens or _DEFAULT_CHUNK_TOKENS.get(facts.device or "", _OTHER_CHUNK_TOKENS)
    by_length = sorted(samples, key=lambda sample: len(sample.prompt))
    return next((sample for sample in by_length if len(sample.prompt) > chunk), by_length[-1])


async def smoke(
    client: Client, samples: list[Sample], facts: Facts, baseline_perplexity: float | None
) -> tuple[dict[str, Any], list[Finding]]:
    """Asks, and says what is wrong. Findings of level error mean: do not measure this variant."""
    sample = pick_sample(samples, facts)
    findings: list[Finding] = []
    result: dict[str, Any] = {"prompt_tokens": len(sample.prompt), "sample_id": sample.sample_id}
    # A server that has no way to be asked has a finding of its own for that.
    if client.access.dialect.perplexity is not None:
        try:
            result["perplexity"] = round(await client.perplexity(_PASSAGE), 4)
        except RequestFailedError as error:
            findings.append(_error(f"plain text could not be read: {error}"))
        else:
            findings += _reading(result["perplexity"], baseline_perplexity)

    request = EngineRequest(sample.prompt.token_ids(), OUTPUT_TOKENS, cache_salt="kveval-smoke")
    first, second = await client.ask(request), await client.ask(request)
    result |= {"output": first.text, "cached_tokens_of_repeat": second.cached_tokens}
    for answer in (first, second):
        problem = _problem(answer) or (_miscounted(answer) if client.access.served is not None else None)
        if problem:
            findings.append(_error(f"a prompt of {len(sample.prompt)} tokens: {problem}"))
            break
    else:
        if (first.output_token_ids, first.text) != (second.output_token_ids, second.text):
            findings.append(
                Finding(
                    level="warning",
                    code="smoke_repeat_differs",
                    message="the same question asked twice was answered differently, the second time from the prefix "
                    "cache",
                )
            )
        if second.cached_tokens == 0 and facts.prefix_caching:
            findings.append(
                Finding(
                    level="warning", code="no_prefix_hit", message="a repeated prompt was not found in the prefix cache"
                )
            )
    return result, findings


def _reading(perplexity: float, baseline: float | None) -> list[Finding]:
    if perplexity > _GARBAGE_PERPLEXITY:
        return [_error(f"perplexity {perplexity:.0f} on plain English: the model does not read")]
    if baseline is not None and perplexity > baseline * _GARBAGE_RATIO:
        return [_error(f"perplexity {perplexity:.0f} on plain English, the baseline has {baseline:.0f}")]
    return []


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
    return f"the server counts {answer.prompt_tokens} tokens of it, its tokenizer is another or the prompt was changed"


def _repeats(text: str) -> bool:
    words = text.split()
    return len(set(text.strip())) == 1 or (len(words) > OUTPUT_TOKENS // 2 and len(set(words)) == 1)


def _error(message: str) -> Finding:
    return Finding(level="error", code="smoke_failed", message=message)
