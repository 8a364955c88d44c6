"""Compares every variant of a run with its baseline, along the texts that all were made to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kveval.errors import RunDirectoryError
from kveval.judge.divergence.position import Growth, PositionRange, by_position, growth
from kveval.judge.divergence.summary import DivergenceSummary, summarize
from kveval.judge.divergence.tokens import TokenDivergence, token_divergence
from kveval.judge.run_data import RunData, incomplete_reason
from kveval.run.divergence import DivergenceFolder, DivergenceText, Reading, TextKind
from kveval.run.manifest import Role, VariantRun

_CONFIDENCE = 0.95
_FINDINGS = ("no_forced_decode", "forced_decode_off", "stepwise")
_NOT_KNOWN, _ANSWER, _AFTER_ANSWER = range(3)


@dataclass(frozen=True, slots=True)
class VariantDivergence:
    """Shows how far one variant moves from the baseline along texts of one kind.

    Attributes:
        planned, compared: texts, and those that both sides have.
        not_compared: (why, how many texts), the most frequent first.
        kept: the most likely tokens of the baseline that were read at every step.
        summary: None if no text can be compared.
        by_length: context length and its summary, the shortest first.
        answer, after_answer: of outputs, the tokens of the baseline's answer, and those that it wrote because it was
            not let end. None without such tokens, or where the answer is not in the records.
        seconds_per_1000_tokens, bytes_per_token: what the variant's readings took; `baseline_bytes_per_token`, what
            the baseline's took, which hold the ids of the kept tokens too.
    """

    variant: str
    role: Role
    kind: TextKind
    planned: int
    compared: int
    not_compared: tuple[tuple[str, int], ...]
    kept: int | None
    summary: DivergenceSummary | None
    by_position: tuple[PositionRange, ...]
    by_length: tuple[tuple[int, DivergenceSummary], ...]
    answer: DivergenceSummary | None
    after_answer: DivergenceSummary | None
    growth: Growth | None
    seconds_per_1000_tokens: float | None
    bytes_per_token: float | None
    baseline_bytes_per_token: float | None


def divergences(run: RunData) -> list[VariantDivergence]:
    """Returns one for every variant but the baseline and every kind of text, in the order of the run.

    Raises:
        RunDirectoryError: the list of texts is broken.
    """
    folder = DivergenceFolder(run.path)
    texts = folder.texts()
    kinds: tuple[TextKind, ...] = ("output", "text")
    return [
        _divergence(run, folder, variant, kind, of_kind)
        for kind in kinds
        if (of_kind := [text for text in texts if text.kind == kind])
        for variant in run.baseline_first[1:]
    ]


def _divergence(
    run: RunData, folder: DivergenceFolder, variant: VariantRun, kind: TextKind, texts: Sequence[DivergenceText]
) -> VariantDivergence:
    baseline = run.baseline
    parts: list[tuple[DivergenceText, TokenDivergence]] = []
    reasons: Counter[str] = Counter()
    in_answer: list[NDArray[np.int8]] = []
    kept: int | None = None
    seconds, size, baseline_size = 0.0, 0, 0
    for text in texts:
        pair = _readings(folder, baseline, variant, text)
        if isinstance(pair, str):
            reasons[pair] += 1
            continue
        ours, theirs = pair
        parts.append((text, _compare(ours, theirs)))
        in_answer.append(_in_answer(run, text, ours.token_ids))
        kept = ours.kept_logprobs.shape[1]
        seconds += float(theirs.seconds[0])
        size += folder.size_bytes(variant.name, text.text_id) or 0
        baseline_size += folder.size_bytes(baseline.name, text.text_id) or 0
    joined = TokenDivergence.joined([part for _, part in parts]) if parts else None
    tokens = 0 if joined is None else len(joined.kld)
    clusters = _repeated(parts, lambda text: text.cluster)

    def part_of_answer(which: int) -> DivergenceSummary | None:
        if joined is None:
            return None
        chosen = np.concatenate(in_answer) == which
        return summarize(joined.where(chosen), clusters[chosen])

    return VariantDivergence(
        variant=variant.name,
        role=variant.role,
        kind=kind,
        planned=len(texts),
        compared=len(parts),
        not_compared=tuple(reasons.most_common()),
        kept=kept,
        summary=None if joined is None else summarize(joined, clusters),
        by_position=() if joined is None else tuple(by_position(joined, clusters)),
        by_length=() if joined is None else tuple(_by_length(parts, joined, clusters)),
        answer=part_of_answer(_ANSWER),
        after_answer=part_of_answer(_AFTER_ANSWER),
        growth=None
        if joined is None
        else growth(joined, _repeated(parts, lambda text: text.text_id), clusters, confidence=_CONFIDENCE),
        seconds_per_1000_tokens=1000 * seconds / tokens if tokens else None,
        bytes_per_token=size / tokens if tokens else None,
        baseline_bytes_per_token=baseline_size / tokens if tokens else None,
    )


def _in_answer(run: RunData, text: DivergenceText, token_ids: NDArray[np.int32]) -> NDArray[np.int8]:
    """Returns for each token of a text whether it is in the baseline's answer, after it, or neither is known."""
    found = np.full(len(token_ids), _NOT_KNOWN, np.int8)
    records = run.records[run.manifest.baseline]
    if text.kind == "text" or text.source not in records.index:
        return found
    record = records.loc[text.source]
    answer = list(record["output_token_ids"])
    # The same prompt may be answered otherwise the second time. Then it is not known where the output would have ended.
    if not answer or token_ids[: len(answer)].tolist() != answer[: len(token_ids)]:
        return found
    found[: len(answer)] = _ANSWER
    if record["finish_reason"] == "stop":
        found[len(answer) :] = _AFTER_ANSWER
    return found


def _by_length(
    parts: Sequence[tuple[DivergenceText, TokenDivergence]], joined: TokenDivergence, clusters: NDArray[np.int64]
) -> Iterator[tuple[int, DivergenceSummary]]:
    lengths = _repeated(parts, lambda text: text.context_length)
    for length in np.unique(lengths):
        summary = summarize(joined.where(lengths == length), clusters[lengths == length])
        if summary is not None:
            yield int(length), summary


def _readings(
    folder: DivergenceFolder, baseline: VariantRun, variant: VariantRun, text: DivergenceText
) -> tuple[Reading, Reading] | str:
    """Returns the baseline's reading of a text and the variant's, or why they cannot be compared."""
    found = []
    for of in (baseline, variant):
        try:
            reading = folder.read(of.name, text.text_id)
        except RunDirectoryError:
            return f"the file of {of.name} is broken; `kveval sweep --resume` reads the text again"
        if reading is None:
            return f"{of.name}: {_why_missing(folder, of, text)}"
        found.append(reading)
    ours, theirs = found
    is_same = len(ours.kept_ids) > 0 and np.array_equal(ours.ids_sha256, theirs.ids_sha256)
    if not is_same or ours.kept_logprobs.shape != theirs.kept_logprobs.shape or len(ours.token_ids) != text.tokens:
        return f"{variant.name} was read at other tokens than {baseline.name}; `kveval sweep --resume` reads them again"
    return ours, theirs


def _why_missing(folder: DivergenceFolder, variant: VariantRun, text: DivergenceText) -> str:
    """Returns why a variant has no reading of a text."""
    failure = folder.failure(variant.name, text.text_id)
    if failure is not None:
        return failure
    if variant.facts.is_established and not variant.facts.forced_decode:
        codes = [one.code for one in variant.findings if one.code in _FINDINGS]
        return "outputs cannot be forced on its server" + (f" (finding {codes[0]})" if codes else "")
    return incomplete_reason(variant) or "not measured"


def _compare(ours: Reading, theirs: Reading) -> TokenDivergence:
    return token_divergence(
        baseline_kept=ours.kept_logprobs,
        variant_kept=theirs.kept_logprobs,
        baseline_tail=ours.tail_logprobs,
        variant_tail=theirs.tail_logprobs,
        baseline_logprobs=ours.logprobs,
        variant_logprobs=theirs.logprobs,
        baseline_argmax=ours.argmax_ids,
        variant_argmax=theirs.argmax_ids,
    )


def _repeated(
    parts: Sequence[tuple[DivergenceText, TokenDivergence]], value: Callable[[DivergenceText], str | int]
) -> NDArray[np.int64]:
    """Returns a value of each text, once for each of its tokens. Names become numbers, which compare faster."""
    numbers: dict[str, int] = {}
    values = (value(text) for text, _ in parts)
    whole = [one if isinstance(one, int) else numbers.setdefault(one, len(numbers)) for one in values]
    return np.repeat(np.array(whole, np.int64), [len(tokens.kld) for _, tokens in parts])
