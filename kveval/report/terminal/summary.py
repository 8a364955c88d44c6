"""The run in the terminal, and as a plain document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kveval.config.judge import Policy
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.own_score import own_score
from kveval.judge.comparison.pairing import has_right_answer
from kveval.judge.comparison.scope import in_scope, scopes
from kveval.judge.comparison.verdict import points
from kveval.judge.run_data import RunData, load_run
from kveval.report.rows import attribution_label, comparison_row, difference_label
from kveval.report.sections.cold.section import cold_label, cold_table
from kveval.report.sections.speculation.section import acceptance_label, partner_label, speculation_table
from kveval.report.text import visible
from kveval.run.manifest import VariantRun

SUMMARY_VERSION = 1
_STYLES = {"pass": "bold green", "fail": "bold red", "undecided": "bold yellow"}


def summary(run_dir: Path, policy: Policy | None = None) -> dict[str, Any]:
    """The run as a strict JSON document: ``{version, run_id, status, partial, baseline, policy, headlines, variants,
    rows, speculation, prefix_cache}``; one row per variant and context length, and one overall (``context_length``
    None).

    Scores are in [0, 1], differences in [-1, 1] (candidate - baseline); None stands beside a reason.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
    """
    run = load_run(run_dir)
    return summarize(run, judge_run(run, policy))


def summary_table(run_dir: Path, policy: Policy | None = None) -> RenderableType:
    """`summary` for people: a table, then the reason behind each verdict.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
    """
    run = load_run(run_dir)
    return render(summarize(run, judge_run(run, policy)))


def summarize(run: RunData, judgement: Judgement) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "version": SUMMARY_VERSION,
        "run_id": manifest.run_id,
        "status": manifest.status,
        "partial": manifest.status != "complete",
        "baseline": manifest.baseline,
        "policy": judgement.policy.model_dump(),
        "headlines": [asdict(headline) for headline in headlines(judgement)],
        "variants": {name: describe_variant(variant) for name, variant in manifest.variants.items()},
        "rows": [*_baseline_rows(run, judgement.policy), *_rows(run, judgement)],
        "speculation": speculation_table(run, judgement),
        "prefix_cache": cold_table(run),
    }


def describe_variant(variant: VariantRun) -> dict[str, Any]:
    facts = variant.facts
    return {
        "role": variant.role,
        "of": variant.of,
        "status": variant.status,
        "reason": variant.reason,
        "storage": facts.storage,
        "emulation": facts.emulation,
        "effective_cache_dtype": facts.effective_cache_dtype,
        "attention_backend": facts.attention_backend,
        "scales": facts.scales,
        "kv_capacity_tokens": facts.kv_capacity_tokens,
        "kv_capacity_ratio": facts.kv_capacity_ratio,
        "declared": facts.declared,
        "findings": [finding.model_dump() for finding in variant.findings],
    }


def _baseline_rows(run: RunData, policy: Policy) -> Iterator[dict[str, Any]]:
    chosen = [group for group in scopes(run.samples) if group.level in ("overall", "length")]
    for group in sorted(chosen, key=lambda group: group.level == "overall"):
        score = own_score(run, run.manifest.baseline, group, confidence=policy.confidence)
        yield {
            "variant": run.manifest.baseline,
            "role": "baseline",
            "level": group.level,
            "context_length": group.context_length,
            "asked": int(has_right_answer(in_scope(run.samples, group)).sum()),
            "n": score.n,
            "haystacks": score.clusters,
            "score": score.mean,
            "score_low": score.low,
            "score_high": score.high,
        }


def _rows(run: RunData, judgement: Judgement) -> Iterator[dict[str, Any]]:
    for name, variant in run.manifest.variants.items():
        for level in ("length", "overall"):
            for comparison in judgement.of(name, level):
                yield {"role": variant.role, **comparison_row(comparison)}


def storage_label(variant: dict[str, Any]) -> str:
    """How the format is stored: "native fp8_e4m3", "emulated int8 per_token_head"; "" before the engine said."""
    detail = variant["emulation"] if variant["storage"] == "emulated" else variant["effective_cache_dtype"]
    said = " (declared)" if _is_declared(variant, "effective_cache_dtype") else ""
    return f"{variant['storage'] or ''} {detail or ''}{said}".strip()


def _is_declared(variant: Mapping[str, Any], fact: str) -> bool:
    """Whether a fact in `describe_variant`'s answer comes from the configuration and not from the server."""
    return fact.replace("_ratio", "_tokens") in (variant.get("declared") or ())


def capacity_label(variant: dict[str, Any]) -> str:
    """KV capacity against the baseline's; of an emulated cache, that it saves nothing."""
    if variant["storage"] == "emulated":
        return "no memory saved"
    ratio = variant["kv_capacity_ratio"]
    said = " (declared)" if _is_declared(variant, "kv_capacity_ratio") else ""
    return f"KV capacity x{ratio:.2f}{said}" if ratio is not None else ""


def render(document: dict[str, Any]) -> RenderableType:
    """The terminal form of what `summarize` returns, 80 columns wide."""
    margin, confidence = points(document["policy"]["margin"]), document["policy"]["confidence"]
    title = f"{document['run_id']}: against {document['baseline']}, margin {margin} points"
    headings = ("context", "n/haystacks", "score", f"delta [{confidence:.0%}]", "flips-/+", "verdict")
    header = _grid()
    header.add_row(*(Text(heading, style="bold underline") for heading in headings))
    parts: list[RenderableType] = [*_notices(document), Text(visible(title), style="bold"), Text(), header]
    for name, variant in document["variants"].items():
        details = ", ".join(part for part in (storage_label(variant), capacity_label(variant)) if part)
        parts.append(Text.assemble((visible(name), "bold"), "  ", (visible(details), "dim")))
        rows = [row for row in document["rows"] if row["variant"] == name]
        if not any(row["n"] for row in rows):
            rows = rows[-1:]
        grid = _grid()
        for row in rows:
            grid.add_row(*_cells(row, variant))
        parts.append(grid)
    return Stack(*parts, Text(), *_reasons(document), *_speculation(document), *_prefix_cache(document))


def _prefix_cache(document: dict[str, Any]) -> Iterator[RenderableType]:
    for row in document["prefix_cache"]:
        yield Text.assemble((visible(row["variant"]), "bold"), f": {cold_label(row)}")
        if row["finding"]:
            yield _indented(f"{row['finding']['level']}: {row['finding']['message']}", style="yellow")


def _speculation(document: dict[str, Any]) -> Iterator[RenderableType]:
    for entry in document["speculation"]:
        yield Text.assemble((visible(entry["variant"]), "bold"), f" speculates: {visible(acceptance_label(entry))}")
        yield _indented(partner_label(entry))


def _grid() -> Table:
    """One per variant: the same widths keep them in line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in (9, 16, 5, 20, 8):
        grid.add_column(justify="right", min_width=width, no_wrap=True)
    grid.add_column()
    return grid


def _cells(row: dict[str, Any], variant: dict[str, Any]) -> list[Text]:
    overall = row["context_length"] is None
    is_baseline = row["role"] == "baseline"
    unanswered = f" of {row['asked']}" if row["n"] < row["asked"] else ""
    return [
        Text("overall" if overall else f"{row['context_length']:,}", style="bold" if overall else ""),
        Text(f"{row['n']}{unanswered}/{row['haystacks']}"),
        Text("" if row["score"] is None else f"{row['score']:.3f}"),
        Text("" if is_baseline else difference_label(row)),
        Text("" if is_baseline else f"{row['lost']}/{row['gained']}"),
        _verdict_cell(row, variant),
    ]


def _verdict_cell(row: dict[str, Any], variant: dict[str, Any]) -> Text:
    if row["role"] != "candidate":
        return Text({"baseline": "baseline", "control": "(control)", "aa": "(A/A)"}[row["role"]], style="dim")
    if row["n"] == 0 and variant["status"] != "complete":
        return Text(variant["status"], style=_STYLES[row["verdict"]])
    return Text(row["verdict"], style=_STYLES[row["verdict"]])


def _notices(document: dict[str, Any]) -> Iterator[Text]:
    if document["partial"]:
        yield Text(f"PARTIAL: this run is {document['status']}; nothing below is final", style="bold yellow")
    for name, variant in document["variants"].items():
        if variant["status"] != "complete":
            reason = f": {visible(variant['reason'])}" if variant["reason"] else ""
            yield Text(f"{visible(name)} is {variant['status']}{reason}", style="bold red")


def _reasons(document: dict[str, Any]) -> Iterator[RenderableType]:
    for headline in document["headlines"]:
        word = (headline["word"], _STYLES[headline["word"]])
        yield Text.assemble((visible(headline["variant"]), "bold"), " ", word, ": ", visible(headline["reason"]))
        rows = [row for row in document["rows"] if row["variant"] == headline["variant"]]
        for row in rows:
            reason = row["reason"]
            if row["verdict"] == "undecided" and row["n"] and reason not in headline["reason"]:
                yield _indented(f"{_where(row)}: {reason}")
            if row["context_length"] is None and row["attribution"]:
                yield _indented(attribution_label(row["attribution"]))
        for finding in document["variants"][headline["variant"]]["findings"]:
            if finding["level"] != "info":
                yield _indented(f"{finding['level']}: {finding['message']}", style="yellow")


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(visible(text), style=style), (0, 0, 0, 4))


def _where(row: dict[str, Any]) -> str:
    return "overall" if row["context_length"] is None else f"{row['context_length']:,} tokens"
