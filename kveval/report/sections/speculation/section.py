"""Speculative decoding of a run: acceptance, and what changed against the same variant without it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.evidence.speculation import Speculation, speculations
from kveval.judge.run_data import RunData
from kveval.report.rows import comparison_row, difference_label
from kveval.report.section import Section


def speculation_table(run: RunData, judgement: Judgement) -> list[dict[str, Any]]:
    """One entry for every variant that speculates: ``{variant, method, tokens, drafts, partner, parting, rows}``.

    ``rows`` are those of its comparison with the partner, overall and by length, each with the A/A run's beside it as
    ``aa``: what differs when nothing changed.
    """
    aa = run.variant("aa", run.manifest.baseline)
    noise = {
        row.scope.context_length: comparison_row(row)
        for row in judgement.comparisons
        if aa and row.variant == aa.name and row.scope.level in ("overall", "length")
    }
    return [_entry(one, noise) for one in speculations(run, judgement.policy)]


def _entry(one: Speculation, noise: dict[int | None, dict[str, Any]]) -> dict[str, Any]:
    rows = [comparison_row(row) for row in one.comparisons]
    return {
        "variant": one.variant,
        "method": one.method,
        "tokens": one.tokens,
        "drafts": asdict(one.drafts) if one.drafts else None,
        "partner": one.partner,
        "parting": asdict(one.parting) if one.parting else None,
        "rows": [{**row, "aa": _noise(noise.get(row["context_length"]))} for row in rows],
    }


def _noise(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {key: row[key] for key in ("n", "identical", "lost", "gained", "delta")}


def acceptance_label(entry: dict[str, Any]) -> str:
    """'ngram, 4 tokens a draft: 31.2% of 1,250 drafted tokens accepted, 2.25 per draft step, ...'."""
    tokens = f", {entry['tokens']} tokens a draft" if entry["tokens"] else ""
    drafts = entry["drafts"]
    if drafts is None:
        return f"{entry['method']}{tokens}: drafts not counted"
    if not drafts["steps"]:
        return f"{entry['method']}{tokens}: nothing drafted"
    places = ", ".join(f"{share:.2f}" for share in drafts["by_position"])
    return (
        f"{entry['method']}{tokens}: {drafts['acceptance'] or 0.0:.1%} of {drafts['tokens']:,} drafted tokens "
        f"accepted, {drafts['tokens_per_step']:.2f} tokens per draft step; accepted by position {places}"
    )


def partner_label(entry: dict[str, Any]) -> str:
    """What changed against the partner overall, beside what changes without any cause."""
    if entry["partner"] is None:
        return "no variant does the same without speculation: what it changes cannot be told"
    row = next(row for row in entry["rows"] if row["context_length"] is None)
    if not row["n"] and row["identical"] is None:
        return f"against {entry['partner']}: nothing that both answered"
    beside = row["aa"]
    same = f"{row['identical']:.1%} of the outputs the same"
    if beside and beside["identical"] is not None:
        same += f" (A/A: {beside['identical']:.1%})"
    flips = f"flips {row['lost']}/{row['gained']}"
    if beside:
        flips += f" (A/A: {beside['lost']}/{beside['gained']})"
    return f"against {entry['partner']}: {same}, {flips}, {difference_label(row) or 'no'} points{_where(entry)}"


def _where(entry: dict[str, Any]) -> str:
    parting = entry["parting"]
    if not parting["different"] or parting["median_nats"] is None:
        return ""
    return (
        f"; where outputs part, {entry['partner']} preferred its token by {parting['median_nats']:.2g} nats in the "
        f"median, {parting['most_nats']:.2g} at most"
    )


SECTION = Section(
    "Speculative decoding", 51, lambda run, judgement: speculation_table(run, judgement) or None, part_of="cost"
)
