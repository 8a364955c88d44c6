"""Asks a few questions before the first sample: does the engine answer, and do its answers make sense?"""

from __future__ import annotations

import re
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
from kveval.tasks.scoring.wording.degeneration import degeneration

_PASSAGE = (
    "The harbour was quiet in the early morning. Fishing boats lay side by side along the stone wall, and a few "
    "men sat on the deck mending their nets. Behind them the town was waking up: a baker opened his shop, children "
    "walked to school, and the first train of the day left the station for the city."
)
_TRADES = (
    "baker", "fisherman", "teacher", "carpenter", "doctor", "gardener", "postman", "tailor", "miller", "painter",
    "smith", "shepherd",
)  # fmt: skip
_DEEDS = (
    "opened the door and looked at the sky before going to work",
    "wrote a long letter to an old friend who lived across the sea",
    "bought bread, cheese and a few apples at the market",
    "told the children a story about the winter of the great storm",
    "repaired the roof of the house that belonged to the church",
    "waited for the evening train, which was late because of the snow",
    "walked along the river and counted the boats that came home",
)
# Long enough that what is stored of its beginning decides how its end is read.
_WHEN = ("On Monday", "A week later", "In the spring", "At the end of the year")
_SENTENCES = tuple(
    f"{when} the {trade} {_DEEDS[(place + turn) % len(_DEEDS)]}."
    for turn, when in enumerate(_WHEN)
    for place, trade in enumerate(_TRADES)
)
# Plain English has more in any vocabulary of a language model.
_CHARACTERS_PER_TOKEN = 2
# A working language model has a perplexity of tens on plain English. Guessing any token has tens of thousands.
_GARBAGE_PERPLEXITY = 1000.0
_GARBAGE_RATIO = 3.0
_SUSPECT_RATIO = 1.5
_LONGER = 1.25
"""How many times the first prompt's length another one must have to be asked too."""
_LEAST_LETTERS = 4
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
    client: Client,
    prompts: Sequence[Prompt],
    facts: Facts,
    baseline_perplexity: float | None,
    baseline: SmokeResult | None = None,
) -> tuple[SmokeResult, list[Finding]]:
    """Asks one of `prompts` twice, the longest once, and the perplexity of plain English.

    Returns answers and what is wrong.

    Args:
        baseline: what the baseline answered. A collapse that leaves fluent text shows only beside it.
    """
    prompt = pick_prompt(prompts, facts)
    perplexity, findings = await _read(client, passage(facts.max_model_len), baseline_perplexity)
    request = EngineRequest(prompt.token_ids(), OUTPUT_TOKENS, cache_salt="kveval-smoke")
    first, second = await client.ask(request), await client.ask(request)
    problems = [
        _problem(answer) or (_miscounted(answer) if client.access.served is not None else None)
        for answer in (first, second)
    ]
    problem = next(filter(None, problems), None) or _nonsense(first.text, baseline.output if baseline else None)
    findings += [_failed(f"a prompt of {len(prompt)} tokens: {problem}")] if problem else _repeat(first, second, facts)
    longest = max(prompts, key=len)
    long_output = None
    if not problem and len(longest) >= _LONGER * len(prompt):
        long_output, long_findings = await _ask_longest(client, longest, first.text, baseline)
        findings += long_findings
    result = SmokeResult(
        prompt_tokens=len(prompt),
        long_prompt_tokens=None if long_output is None else len(longest),
        long_output=long_output,
        perplexity=perplexity,
        output=first.text,
        cached_tokens_of_repeat=second.cached_tokens,
    )
    return result, findings


async def _ask_longest(
    client: Client, prompt: Prompt, short_output: str, baseline: SmokeResult | None
) -> tuple[str, list[Finding]]:
    """Asks the longest prompt: a cache may hold short ones and lose long ones."""
    answer = await client.ask(EngineRequest(prompt.token_ids(), OUTPUT_TOKENS, cache_salt="kveval-smoke"))
    theirs = baseline.long_output if baseline else None
    problem = _problem(answer) or _nonsense(answer.text, theirs)
    if problem:
        return answer.text, [_failed(f"a prompt of {len(prompt)} tokens: {problem}")]
    short_theirs = baseline.output if baseline else None
    if theirs is None or short_theirs is None or _share_a_word(answer.text, theirs):
        return answer.text, []
    if not _share_a_word(short_output, short_theirs):
        return answer.text, []
    message = (
        f"the answer to the longest prompt ({len(prompt)} tokens) has no word in common with the baseline's, while "
        f"that to a shorter one has: {answer.text[:60]!r} and {theirs[:60]!r}"
    )
    return answer.text, [Finding.warning("smoke_long_answer_differs", message)]


def _nonsense(text: str, of_baseline: str | None) -> str | None:
    """Returns how an answer has degenerated where the baseline's has not."""
    kind = degeneration(text)
    if kind is None or of_baseline is None or degeneration(of_baseline) is not None:
        return None
    what = {"loop": "ends in a loop", "scripts": "mixes scripts"}[kind]
    return f"the answer {what}, and the baseline's does not: {text[:60]!r}"


def _share_a_word(one: str, other: str) -> bool:
    words = [
        {word for word in re.findall(r"\w+", text.casefold()) if len(word) >= _LEAST_LETTERS} for text in (one, other)
    ]
    return not all(words) or not words[0].isdisjoint(words[1])


def passage(window: int | None) -> str:
    """Returns plain English that fits into a window of so many tokens, whole sentences of it."""
    most = len(_SENTENCES) if window is None else max(1, _CHARACTERS_PER_TOKEN * window // max(map(len, _SENTENCES)))
    return " ".join(_SENTENCES[:most])


async def _read(client: Client, text: str, baseline: float | None) -> tuple[float | None, list[Finding]]:
    # A server that gives no logprobs of a text has a finding for that already.
    if client.access.dialect.perplexity is None:
        return None, []
    try:
        perplexity = round(await client.perplexity(text), 4)
    except RequestFailedError as error:
        return None, [_failed(f"plain text could not be read: {error}")]
    if perplexity > _GARBAGE_PERPLEXITY:
        return perplexity, [_failed(f"perplexity {perplexity:.0f} on plain English: the model does not read")]
    if baseline is not None and perplexity > baseline * _GARBAGE_RATIO:
        message = f"perplexity {perplexity:.0f} on plain English, the baseline has {baseline:.0f}"
        return perplexity, [_failed(message)]
    if baseline is not None and perplexity > baseline * _SUSPECT_RATIO:
        message = f"perplexity {perplexity:.1f} on plain English, the baseline has {baseline:.1f}"
        return perplexity, [Finding.warning("smoke_perplexity_rises", message)]
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
