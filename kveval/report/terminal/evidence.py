"""What speculative decoding and the prefix cache change, and how far variants move along a text, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.divergence.estimate import Estimate
from kveval.judge.divergence.of_run import VariantDivergence
from kveval.judge.evidence.cold import ColdComparison
from kveval.judge.evidence.measures import event_findings, measures
from kveval.judge.evidence.speculation import Speculation
from kveval.judge.run_data import RunData
from kveval.report.labels import difference_label, flips_in_words
from kveval.report.sections.speculation.section import SpeculatingVariant
from kveval.report.terminal.layout import indented
from kveval.report.text import visible


def speculation_lines(one: SpeculatingVariant) -> Iterator[RenderableType]:
    """Shows how many drafted tokens were accepted, and what changed against the partner."""
    result = one.result
    yield Text.assemble((visible(result.variant), "bold"), f" speculates: {visible(acceptance_label(result))}")
    yield indented(partner_label(one))


def acceptance_label(result: Speculation) -> str:
    """'ngram, 4 tokens per draft: 31.2% of 1,250 drafted tokens accepted, 2.25 per draft step, ...'."""
    tokens = f", {result.tokens} tokens per draft" if result.tokens else ""
    drafts = result.drafts
    if drafts is None:
        return f"{result.method}{tokens}: drafts not counted"
    if not drafts.steps:
        return f"{result.method}{tokens}: nothing drafted"
    places = ", ".join(f"{share:.2f}" for share in drafts.by_position)
    return (
        f"{result.method}{tokens}: {drafts.acceptance or 0.0:.1%} of {drafts.tokens:,} drafted tokens "
        f"accepted, {drafts.tokens_per_step:.2f} tokens per draft step; accepted by position {places}"
    )


def partner_label(one: SpeculatingVariant) -> str:
    """Says what changed against the partner overall, beside what changes without any cause."""
    partner = one.result.partner
    if partner is None:
        return "no variant does the same without speculation, so it is not known what speculation changes"
    row, aa = next((row, aa) for row, aa in one.rows if row.scope.level == "overall")
    if row.identical is None:
        return f"against {partner}: no question that both answered"
    same = f"{row.identical:.1%} of the outputs identical"
    flips = flips_in_words(row.flips)
    if aa is not None:
        flips += f" (A/A: {flips_in_words(aa.flips)})"
        if aa.identical is not None:
            same += f" (A/A: {aa.identical:.1%})"
    return (
        f"against {partner}: {same}, {flips}, {difference_label(row.difference) or 'no'} points{_parting(one.result)}"
    )


def _parting(result: Speculation) -> str:
    parting = result.parting
    if parting is None or not parting.different or parting.median_nats is None:
        return ""
    return (
        f"; where outputs first differ, {result.partner} preferred its token by {parting.median_nats:.2g} nats in the "
        f"median, {parting.most_nats:.2g} at most"
    )


def cold_lines(check: ColdComparison) -> Iterator[RenderableType]:
    """Shows what came from the prefix cache, what changed without it, and the finding if there is one."""
    yield Text.assemble((visible(check.variant), "bold"), f": {cold_label(check)}")
    if check.finding:
        yield indented(f"{check.finding.level}: {check.finding.message}", style="yellow")


def cold_label(check: ColdComparison) -> str:
    """Says what came from the prefix cache, and how many outputs are the same without it."""
    parts = []
    if check.hit_share is not None:
        parts.append(f"{check.hit_share:.0%} of prompt tokens from the prefix cache, planned {check.planned_share:.0%}")
    if check.asked:
        parts.append(
            f"asked again without it: {check.identical} of {check.n} outputs identical, "
            f"{check.lost} lost, {check.gained} gained{_not_compared(check)}"
        )
    return "; ".join(parts)


def _not_compared(check: ColdComparison) -> str:
    reasons = {
        "unanswered": check.unanswered,
        "not cold the second time": check.not_cold,
        "cold the first time": check.not_warm,
    }
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f" (not compared: {listed})" if listed else ""


def divergence_lines(rows: Sequence[VariantDivergence]) -> Iterator[RenderableType]:
    """Shows how far every variant moves from the baseline along the same text."""
    for row in rows:
        of = {"output": "the baseline's output", "text": "the given texts"}[row.kind]
        note = {"aa": " (A/A)", "control": " (control)"}.get(row.role, "")
        yield Text.assemble((visible(row.variant), "bold"), f"{note} along {of}: {_divergence_label(row)}")
        for reason, texts in row.not_compared:
            yield indented(f"{texts} of {row.planned} texts are not compared: {visible(reason)}")
        if row.growth is not None and row.growth.word in ("grows", "shrinks"):
            yield indented(f"the divergence {row.growth.word} along a text, by {row.growth.kld:+.2g} nats")
    if rows:
        yield Text("KLD in nats at temperature 1, a lower bound: all tokens not kept count as one", style="dim")


def measure_lines(run: RunData, judgement: Judgement) -> Iterator[RenderableType]:
    """Shows how many answers of each variant were refused, degenerate and the like, and what differs."""
    confidence = judgement.policy.confidence
    found = [one for one in measures(run, confidence=confidence) if one.is_event and one.scope.level == "overall"]
    shown = {one.name for one in found if one.count}
    for variant in run.baseline_first:
        counts = [one for one in found if one.variant == variant.name and one.name in shown]
        if counts:
            words = ", ".join(f"{one.name.replace('_', ' ')} {one.count:,} of {one.own.n:,}" for one in counts)
            yield Text.assemble((visible(variant.name), "bold"), f"  {words}")
    for finding in event_findings(found, baseline=run.manifest.baseline, confidence=confidence):
        yield indented(visible(finding.message))


def _divergence_label(row: VariantDivergence) -> str:
    """'mean KLD at least 0.0069 ± 0.0004, maximum 0.14, same top p 99.2% ± 0.3%, ... (8 of 8 texts, ...)'."""
    summary = row.summary
    if summary is None:
        return "not measured"
    top = _estimate(summary.same_top.times(100), ".1f", "%")
    maximum = "not finite" if summary.kld_max is None else f"{summary.kld_max:.2g}"
    return (
        f"mean KLD {'at least ' if summary.kld_mean.value is not None else ''}{_estimate(summary.kld_mean)}, "
        f"maximum {maximum}, same top p {top}, PPL ratio {_estimate(summary.ppl_ratio, '.4f')} "
        f"({row.compared} of {row.planned} texts, {summary.tokens:,} tokens)"
    )


def _estimate(one: Estimate, form: str = ".2g", unit: str = "") -> str:
    if one.value is None:
        return one.reason or "not finite"
    return f"{one.value:{form}}{unit}" + ("" if one.se is None else f" ± {one.se:.1g}{unit}")
