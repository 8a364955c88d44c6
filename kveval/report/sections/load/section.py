"""Speed under load: every variant beside the baseline, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kveval.report.section import Section
from kveval.run.facts import Finding
from kveval.run.load_results import Level, LevelResult, LoadDocument, LoadVariant, read_load


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One variant at one level. `reference` is the baseline's result there, None for the baseline itself."""

    variant: LoadVariant
    result: LevelResult
    reference: LevelResult | None

    @property
    def ratios(self) -> dict[str, float | None] | None:
        """Returns the result over the reference: above 1 is slower for times, and faster for tokens per second."""
        if self.reference is None:
            return None
        own, base = self.result, self.reference
        pairs = {
            "ttft": (own.ttft_ms.median, base.ttft_ms.median),
            "itl": (own.itl_ms.median, base.itl_ms.median),
            "latency": (own.latency_ms.median, base.latency_ms.median),
            "output_tokens_per_s": (own.output_tokens_per_s, base.output_tokens_per_s),
        }
        return {name: round(mine / other, 3) if mine and other else None for name, (mine, other) in pairs.items()}


@dataclass(frozen=True, slots=True)
class LoadedVariant:
    """One variant over all levels: the most memory its server held (None if unknown), and all findings."""

    variant: LoadVariant
    rss_peak_bytes: float | None
    device_peak_bytes: int | None
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class LoadTables:
    """The load measurement of a run: a row for each level and variant, the baseline first."""

    document: LoadDocument
    variants: list[LoadedVariant]
    rows: list[LoadRow]


def load_tables(document: LoadDocument) -> LoadTables:
    baseline = document.variants.get(document.baseline)
    ordered = sorted(document.variants.values(), key=lambda variant: variant.name != document.baseline)
    rows = []
    for level in levels(document):
        reference = baseline.result(level) if baseline else None
        for variant in ordered:
            result = variant.result(level)
            if result is not None:
                rows.append(LoadRow(variant, result, None if variant is baseline else reference))
    return LoadTables(document, [_loaded(variant) for variant in ordered], rows)


def levels(document: LoadDocument) -> list[Level]:
    """Returns every level, in the order of the first variant that has it."""
    found: list[Level] = []
    for variant in document.variants.values():
        found += [result.level for result in variant.levels if result.level not in found]
    return found


def _loaded(variant: LoadVariant) -> LoadedVariant:
    resident = [result.engine_rss_bytes.peak for result in variant.levels if result.engine_rss_bytes]
    return LoadedVariant(
        variant=variant,
        rss_peak_bytes=max((peak for peak in resident if peak), default=None),
        device_peak_bytes=max((result.device_bytes for result in variant.levels if result.device_bytes), default=None),
        findings=[*variant.findings, *(finding for result in variant.levels for finding in result.findings)],
    )


def section_content(run_dir: Path) -> LoadTables | None:
    """Reads ``load.json`` of a run directory. None if nothing was measured under load.

    Raises:
        RunDirectoryError: ``load.json`` is broken.
    """
    document = read_load(run_dir)
    return None if document is None else load_tables(document)


SECTION = Section("Under load", 52, lambda run, _: section_content(run.path), part_of="cost")
