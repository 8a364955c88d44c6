"""The answer for every candidate: one sentence, and what a reader who stops there must know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import Headline, headlines, held_to
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report.html.charts import length_label
from kveval.report.rows import comparison_row
from kveval.report.section import Section
from kveval.run.manifest import VariantRun

_BLAME = {
    "format": "The loss is the format's.",
    "kernel": "The loss is the kernel's, not the format's.",
    "both": "Format and kernel both lose.",
    None: "Which of the two loses is not settled.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Attributes:
        held: the largest context length up to which everything asked passes, and why not more.
        memory: what the cache holds, against the baseline's.
        settle: what would settle what is open, one entry per row.
        labels: what the numbers must not be read without, in a few words each; `caveats` in a sentence each.
        blame: whose loss it is, where a control was measured and something was lost.
        rows, cells, families: as `comparison_row` makes them.
    """

    variant: VariantRun
    headline: Headline
    sentence: str
    held: str
    memory: str
    settle: list[str]
    labels: list[str]
    caveats: list[str]
    blame: str | None
    measured: bool
    rows: list[dict[str, Any]]
    cells: list[dict[str, Any]]
    families: list[dict[str, Any]]


def answers(run: RunData, judgement: Judgement) -> list[Answer]:
    """One for every candidate, in the run's order."""
    return [_answer(run, judgement, headline) for headline in headlines(judgement)]


def _answer(run: RunData, judgement: Judgement, headline: Headline) -> Answer:
    variant, baseline = run.manifest.variants[headline.variant], run.manifest.variants[run.manifest.baseline]
    lengths, overall = judgement.of(variant.name, "length"), judgement.of(variant.name, "overall")
    cells = judgement.of(variant.name, "cell")
    return Answer(
        variant=variant,
        headline=headline,
        sentence=sentence(judgement, headline),
        held=held(lengths),
        memory=memory(variant, baseline),
        settle=settle([*lengths, *overall]),
        labels=labels(variant, baseline, overall, len(cells)),
        caveats=caveats(variant),
        blame=next((_blame(row) for row in overall), None),
        measured=any(row.difference.n for row in overall),
        rows=[comparison_row(row) for row in (*lengths, *overall)],
        cells=[comparison_row(row) for row in cells],
        families=[comparison_row(row) for row in judgement.of(variant.name, "family")],
    )


def sentence(judgement: Judgement, headline: Headline) -> str:
    """Where it passes, where it fails and by how much, what is open."""
    name = headline.variant
    lengths = judgement.of(name, "length")
    overall = judgement.of(name, "overall")
    if not any(row.difference.n for row in overall):
        return f"{headline.reason}."
    if headline.word == "undecided":
        return f"not settled: {_in_words(overall[0], judgement.policy)}; {headline.reason}."
    if headline.word == "pass":
        return f"pass up to {_label(lengths[-1])}: {overall[0].verdict.reason}." if overall[0].verdict else ""
    limit = held_to(lengths)
    parts = [f"pass up to {length_label(limit)}"] if limit else []
    failing = [row for row in lengths if _word(row) == "fail"]
    if failing:
        first = failing[0]
        cells = [row for row in judgement.of(name, "cell") if row.scope.context_length == first.scope.context_length]
        parts.append(f"fails at {_label(first)}{_on(cells)}: {_in_words(first, judgement.policy)}")
        if failing[1:]:
            parts.append(f"fails too at {_listed([_label(row) for row in failing[1:]])}")
    else:
        others = [
            row for level in ("overall", "family", "cell") for row in judgement.of(name, level) if _word(row) == "fail"
        ]
        worst = min(others, key=lambda row: row.difference.delta or 0.0)
        place = "over all lengths" if worst.scope.level == "overall" else f"on {worst.scope}"
        parts.append(f"fails {place}: {_in_words(worst, judgement.policy)}")
    still_open = [row for row in lengths if _word(row) == "undecided"]
    if still_open:
        parts.append(f"open at {_listed([_label(row) for row in still_open])}")
    return "; ".join(parts) + "."


def held(lengths: Sequence[Comparison]) -> str:
    limit = held_to(lengths)
    beyond = next((row for row in lengths if _word(row) != "pass"), None)
    if not lengths:
        return "no context length was asked"
    if beyond is None:
        return f"{length_label(limit or 0)}, the longest asked"
    why = {"fail": "fails", "undecided": "is open"}.get(_word(beyond) or "", "has no verdict")
    return f"{length_label(limit) if limit else 'none'}: {_label(beyond)} {why}"


def memory(variant: VariantRun, baseline: VariantRun) -> str:
    facts, reference = variant.facts, baseline.facts
    if not facts.is_established:
        return "not known: the engine was not started"
    if facts.is_emulated:
        return f"none gained here: emulated, stored as {facts.effective_cache_dtype or 'before'}"
    ratio, fits, before = (
        facts.kv_capacity_ratio, facts.kv_capacity_tokens, reference.kv_capacity_tokens,
    )  # fmt: skip
    if ratio is None or fits is None:
        return "not known: the engine does not say what its cache holds"
    beside = f" against {before:,}" if before else ""
    said = any(one.is_declared("kv_capacity_tokens") for one in (facts, reference))
    beside += "; declared, not established from the server" if said else ""
    return f"{ratio:.2f} times the baseline's tokens in the same memory: {fits:,}{beside}"


def labels(variant: VariantRun, baseline: VariantRun, overall: Sequence[Comparison], cells: int) -> list[str]:
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
        found.append(f"other attention backend: {backend}, the baseline's {other}")
    blind = max((len(row.insensitive_cells) for row in overall), default=0)
    if blind:
        found.append(f"no loss can show in {blind} of {cells} cells")
    return found


def caveats(variant: VariantRun) -> list[str]:
    """What would mislead a reader who did not know it, in one sentence each."""
    found = []
    if variant.status != "complete":
        found.append(f"This variant is {variant.status}, not complete: what it lacks counts against it.")
    if variant.facts.is_emulated:
        found.append(
            "Emulated: the values are rounded as the format rounds them, and stored as before. No memory is saved, and "
            "the kernel of a native cache is not tested."
        )
    return found + [finding.message for finding in variant.findings if finding.level != "info"]


def settle(rows: Sequence[Comparison]) -> list[str]:
    """What would settle the open ones among `rows`, one entry each."""
    return [entry for row in rows if (entry := _settle(row)) is not None]


def _settle(row: Comparison) -> str | None:
    if row.verdict is None or row.verdict.word != "undecided":
        return None
    place = "overall" if row.scope.context_length is None else f"at {_label(row)}"
    difference, more = row.difference, row.verdict.more_samples
    if more is None or not difference.n:
        return f"{place}: {row.verdict.reason}"
    haystacks = -(-more * difference.clusters // difference.n)
    return f"{place}: about {more:,} more samples ({haystacks:,} more haystacks)"


def _blame(row: Comparison) -> str | None:
    if row.attribution is None or row.attribution.total.delta is None or row.attribution.total.delta >= 0:
        return None
    return _BLAME[row.attribution.blames()]


def _on(cells: Sequence[Comparison]) -> str:
    """The task that loses most, where one fails by itself and there are others."""
    failing = [row for row in cells if _word(row) == "fail"]
    if not failing or len(cells) < 2:
        return ""
    worst = min(failing, key=lambda row: row.difference.delta or 0.0)
    delta = worst.difference.delta or 0.0
    return f" (most on {worst.scope.task}, {100 * delta:+.1f})"


def _in_words(row: Comparison, policy: Policy) -> str:
    difference = row.difference
    interval = (
        f", {policy.confidence:.0%} interval {100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
        if difference.low is not None and difference.high is not None
        else ""
    )
    size = f"{difference.n:,} samples in {difference.clusters:,} haystacks"
    return f"{100 * (difference.delta or 0.0):+.1f} points{interval}, {size}"


def _word(row: Comparison) -> str | None:
    return row.verdict.word if row.verdict is not None else None


def _label(row: Comparison) -> str:
    return length_label(row.scope.context_length or 0)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


SECTION = Section("The answer", 10, answers, link="Answer")
