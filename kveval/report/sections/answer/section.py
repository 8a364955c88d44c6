"""The verdict for every candidate: one sentence, and what a reader who stops there must know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kveval.judge.comparison.comparison import Comparison, in_words
from kveval.judge.comparison.headline import Headline, headlines, held_to, listed
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report.endpoints import contradiction, name_of
from kveval.report.labels import length_label, plain_reason, proven_safe, word_of
from kveval.report.section import Section
from kveval.run.manifest import VariantRun

_CAUSES = {
    "format": "The format causes the loss.",
    "kernel": "The kernel causes the loss, not the format.",
    "both": "Format and kernel both lose.",
    None: "Which of the two loses is undecided.",
}


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a run says about one candidate.

    Attributes:
        labels: what a reader must know before the numbers, in a few words each; `caveats` says it in sentences.
        cause: whether format or kernel causes the loss. None without an emulated control or without a loss.
        evidence: which score decides, and which stand beside it. None for a run of greedy answers.
        is_measured: whether any question was answered by both sides.
        rows: every context length, then overall.
    """

    variant: VariantRun
    headline: Headline
    sentence: str
    proven_safe: str
    memory: str
    settling: str | None
    labels: list[str]
    caveats: list[str]
    cause: str | None
    is_measured: bool
    evidence: str | None
    rows: tuple[Comparison, ...]
    families: tuple[Comparison, ...]
    cells: tuple[Comparison, ...]


def conclusions(run: RunData, judgement: Judgement) -> list[Conclusion]:
    """Returns one for every candidate, in the run's order."""
    return [_conclusion(run, judgement, headline) for headline in headlines(judgement)]


def _conclusion(run: RunData, judgement: Judgement, headline: Headline) -> Conclusion:
    variant = run.manifest.variants[headline.variant]
    overall, cells = judgement.of(variant.name, "overall"), judgement.of(variant.name, "cell")
    rows = judgement.of(variant.name, "length", "overall")
    is_void = any(judgement.void_of(row) for row in overall)
    return Conclusion(
        variant=variant,
        headline=headline,
        sentence=sentence(judgement, headline),
        proven_safe="not known: not judged" if is_void else proven_safe(judgement.of(variant.name, "length")),
        memory=memory(variant, run.baseline),
        settling=str(headline.settling) if headline.settling else None,
        labels=[*(["not judged"] if is_void else []), *labels(variant, run.baseline, overall, len(cells))],
        caveats=[*caveats(variant), *(said for row in rows if (said := contradiction(row)))],
        cause=None if is_void else next((_cause(row) for row in overall), None),
        is_measured=any(row.difference.n for row in overall),
        evidence=next((evidence(row) for row in overall if row.expected), None),
        rows=tuple(rows),
        families=tuple(judgement.of(variant.name, "family")),
        cells=tuple(cells),
    )


def memory(variant: VariantRun, baseline: VariantRun) -> str:
    """Says how many tokens the cache holds, compared with the baseline's."""
    facts, reference = variant.facts, baseline.facts
    if not facts.is_established:
        return "not known: the engine was not started"
    if facts.is_emulated:
        return f"none gained here: emulated, stored as {facts.effective_cache_dtype or 'before'}"
    tokens, before = facts.kv_capacity_tokens, reference.kv_capacity_tokens
    if facts.kv_capacity_ratio is None or tokens is None:
        return "not known: the engine does not say what its cache holds"
    text = f"fits {facts.kv_capacity_ratio:.2f}x the tokens"
    text += f" ({tokens:,} vs {before:,})" if before else f" ({tokens:,})"
    if any(one.is_declared("kv_capacity_tokens") for one in (facts, reference)):
        text += "; declared, not established from the server"
    return text


def labels(variant: VariantRun, baseline: VariantRun, overall: Sequence[Comparison], cells: int) -> list[str]:
    """Returns what a reader must know before the numbers, in a few words each."""
    facts, reference = variant.facts, baseline.facts
    found = []
    if variant.status != "complete":
        found.append(f"{variant.status}, not complete")
    if facts.declared:
        found.append(f"declared, not established: {', '.join(name.replace('_', ' ') for name in facts.declared)}")
    if facts.scales == "1.0":
        found.append("scales not calibrated")
    backend, other = facts.attention_backend, reference.attention_backend
    if backend is not None and other is not None and backend != other:
        found.append(f"other attention backend: {backend}, baseline: {other}")
    blind = max((len(row.insensitive_cells) for row in overall), default=0)
    if blind:
        found.append(f"no loss can show in {blind} of {cells} cells")
    return found


def caveats(variant: VariantRun) -> list[str]:
    """Returns what would mislead a reader who did not know it, in one sentence each."""
    found = []
    if variant.status != "complete":
        found.append(f"This variant is {variant.status}, not complete: what it lacks counts against it.")
    if variant.facts.is_emulated:
        found.append(
            "Emulated: kveval rounds the values as the format does and stores them as before. No memory is saved, and "
            "the kernel of a native cache is not tested."
        )
    return found + [finding.message for finding in variant.findings if finding.level != "info"]


def evidence(row: Comparison) -> str:
    """Says which score decides a row that has several, and which stand beside it."""
    beside = "; ".join(name_of(row, one) for one in row.beside)
    return f"The verdict overall is decided by: {name_of(row, row.shown)}. Beside it in the table: {beside}."


def _cause(row: Comparison) -> str | None:
    if row.attribution is None or row.attribution.total.delta is None or row.attribution.total.delta >= 0:
        return None
    return _CAUSES[row.attribution.blames()]


SECTION = Section("The answer", 10, conclusions, link="Answer")


def sentence(judgement: Judgement, headline: Headline) -> str:
    """Returns 'pass up to 2K; fails at 8K: -14.0 points, 95% interval -19.4 to -8.6, 300 questions about ...'."""
    lengths, overall = judgement.of(headline.variant, "length"), judgement.of(headline.variant, "overall")
    if not any(row.difference.n for row in overall) or any(judgement.void_of(row) for row in overall):
        return f"{headline.reason}."
    if headline.word == "undecided":
        decides = next((row for row in (*overall, *lengths) if word_of(row) == "undecided"), overall[0])
        return f"{in_words(overall[0].shown, judgement.policy.confidence)}; {_at(decides)}: {plain_reason(decides)}."
    if headline.word == "pass":
        return f"pass up to {_length(lengths[-1])}: {plain_reason(overall[0])}."
    limit, undecided = held_to(lengths), [_length(row) for row in lengths if word_of(row) == "undecided"]
    parts = [f"pass up to {length_label(limit)}"] if limit else []
    parts += _failing(judgement, headline, lengths)
    if undecided:
        parts.append(f"undecided at {listed(undecided)}")
    return "; ".join(parts) + "."


def _failing(judgement: Judgement, headline: Headline, lengths: Sequence[Comparison]) -> list[str]:
    failing = [row for row in lengths if word_of(row) == "fail"]
    if failing:
        first, *others = failing
        length = first.scope.context_length
        cells = [row for row in judgement.of(headline.variant, "cell") if row.scope.context_length == length]
        parts = [f"fails at {_length(first)}{_worst_task(cells)}: {in_words(first.shown, judgement.policy.confidence)}"]
        return [*parts, f"also fails at {listed([_length(row) for row in others])}"] if others else parts
    rows = [row for row in judgement.of(headline.variant, "overall", "family", "cell") if word_of(row) == "fail"]
    worst = min(rows, key=lambda row: row.difference.delta or 0.0)
    place = "over all lengths" if worst.scope.level == "overall" else f"on {worst.scope}"
    return [f"fails {place}: {in_words(worst.shown, judgement.policy.confidence)}"]


def _worst_task(cells: Sequence[Comparison]) -> str:
    """Names the task that loses most, if one fails by itself and there are others."""
    failing = [row for row in cells if word_of(row) == "fail"]
    if not failing or len(cells) < 2:
        return ""
    worst = min(failing, key=lambda row: row.difference.delta or 0.0)
    return f" (most on {worst.scope.task}, {100 * (worst.difference.delta or 0.0):+.1f})"


def _at(row: Comparison) -> str:
    return "overall" if row.scope.level == "overall" else f"at {_length(row)}"


def _length(row: Comparison) -> str:
    return length_label(row.scope.context_length)
