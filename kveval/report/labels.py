"""Short texts and sentences that the page, the terminal and the files share."""

from __future__ import annotations

from collections.abc import Sequence

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import KIND_WORDS, Endpoint
from kveval.judge.comparison.headline import held_to
from kveval.judge.run_data import RunData
from kveval.judge.statistics.difference import Difference
from kveval.judge.statistics.hypothesis_tests import Flips
from kveval.run.facts import Facts

# An interval of this width, a whole 100 points, tells nothing.
_SAYS_NOTHING = 1.0


def emulated_suffix(run: RunData, variant: str) -> str:
    """Returns ' (emulated)' for a variant whose cache is emulated, and '' for any other."""
    found = run.manifest.variants.get(variant)
    return " (emulated)" if found and found.facts.is_emulated else ""


def length_label(tokens: int | None) -> str:
    """8192 -> '8K', 3000 -> '3,000', None -> 'overall'."""
    if tokens is None:
        return "overall"
    return f"{tokens // 1024}K" if tokens % 1024 == 0 else f"{tokens:,}"


def score_label(score: float | None) -> str:
    """0.8567 -> '0.857'; '' without a score."""
    return "" if score is None else f"{score:.3f}"


def difference_label(difference: Difference) -> str:
    """'-5.7 [-9.2, -2.2]' in percentage points, '-5.7 [too few]' without a useful interval; '' without samples."""
    if difference.delta is None:
        return ""
    delta = f"{100 * difference.delta:+.1f}"
    low, high = difference.low, difference.high
    if low is None or high is None or high - low >= _SAYS_NOTHING:
        return f"{delta} [too few]"
    return f"{delta} [{100 * low:+.1f}, {100 * high:+.1f}]"


def flips_label(flips: Flips) -> str:
    """'17 / 2': questions lost and gained."""
    return f"{flips.lost} / {flips.gained}"


def flips_in_words(flips: Flips) -> str:
    """'17 lost, 2 gained'."""
    return f"{flips.lost} lost, {flips.gained} gained"


def answered_label(row: Comparison | Endpoint) -> str:
    """'300', or '280 of 300' where some questions have no answer from both sides."""
    n = row.difference.n
    return f"{n:,} of {row.asked:,}" if n < row.asked else f"{n:,}"


def storage_label(facts: Facts) -> str:
    """How the format is stored: 'native fp8_e4m3', 'emulated int8 per_token_head'; '' before the engine answered."""
    if facts.is_emulated:
        return f"emulated {(facts.emulation or '').removesuffix(' (emulated)')}".strip()
    said = " (declared)" if facts.is_declared("effective_cache_dtype") else ""
    return f"{facts.storage or ''} {facts.effective_cache_dtype or ''}{said}".strip()


def capacity_label(facts: Facts) -> str:
    """'KV capacity x2.00' against the baseline; 'no memory saved' for an emulated cache; '' if unknown."""
    if facts.is_emulated:
        return "no memory saved"
    said = " (declared)" if facts.is_declared("kv_capacity_ratio") else ""
    return f"KV capacity x{facts.kv_capacity_ratio:.2f}{said}" if facts.kv_capacity_ratio is not None else ""


def word_of(row: Comparison) -> str | None:
    """Returns the word of the row's verdict; None for controls and A/A runs."""
    return row.verdict.word if row.verdict is not None else None


def plain_reason(row: Comparison) -> str:
    """Returns the reason of the row's verdict without the name of the score that decides it."""
    reason = row.verdict.reason if row.verdict is not None else ""
    return reason.removeprefix(f"by the {KIND_WORDS[row.shown.kind]}, ") if row.shown.kind != "greedy" else reason


def row_word(row: Comparison) -> str:
    """Returns the word of the row's verdict, as 'fail (advisory)' where it is never in the way of a pass."""
    return (word_of(row) or "") + (" (advisory)" if row.is_advisory else "")


def with_word(word: str, reason: str) -> str:
    """Puts the word of a verdict before its reason, unless a part of the reason begins with it."""
    return reason if any(part.startswith(word) for part in reason.split("; ")) else f"{word}: {reason}"


def proven_safe(lengths: Sequence[Comparison]) -> str:
    """Says up to which context length everything passes, and why no further: 'nothing yet (1K undecided)'."""
    if not lengths:
        return "no context length was asked"
    limit = held_to(lengths)
    beyond = next((row for row in lengths if word_of(row) != "pass"), None)
    if beyond is None:
        return f"{length_label(limit)}, the longest asked"
    why = {"fail": "fails", "undecided": "undecided"}.get(word_of(beyond) or "", "not judged")
    return f"{length_label(limit) if limit else 'nothing yet'} ({length_label(beyond.scope.context_length)} {why})"
