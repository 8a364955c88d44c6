"""Several nights on one page: score and verdict of every variant, and the nights where the engine changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from kveval.config.judge import Policy
from kveval.errors import UsageError
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.comparison.own_score import kinds_of, own_score
from kveval.judge.comparison.scope import Scope
from kveval.judge.run_data import load_run
from kveval.judge.statistics.clusters import Score
from kveval.report.endpoints import KIND_LABELS
from kveval.report.history.night import Entry, Night
from kveval.report.history.triage import FALSE_ALARMS, lengths_of, triage
from kveval.report.html.charts import Chart, night_chart
from kveval.report.html.page import render
from kveval.report.html.report import build_report
from kveval.report.labels import proven_safe
from kveval.run.directory import RunDirectory
from kveval.run.storage import write_atomically


def build_reports(runs: Sequence[Path], out: Path | None = None) -> list[tuple[str, Path]]:
    """Writes the report of every run, and the history of several. Returns (what it is, where it was written).

    `out` is the file for the one report, or for the history.

    Raises:
        RunDirectoryError: one of them is not a run directory, or it is broken.
        UsageError: the same run twice.
    """
    if len(runs) == 1:
        return [("report", build_report(runs[0], out))]
    twice = next((run for i, run in enumerate(runs) if run.resolve() in [other.resolve() for other in runs[:i]]), None)
    if twice is not None:
        raise UsageError(f"RUN: {twice} is given twice; use each run once")
    written = [("report", build_report(run)) for run in runs]
    return [*written, ("history", build_history(runs, out))]


def runs_in(folder: Path) -> list[Path]:
    """Returns the run directories right inside `folder`, by name.

    Raises:
        UsageError: there are fewer than two.
    """
    found = sorted(path for path in folder.glob("*") if RunDirectory(path).exists())
    if len(found) < 2:
        raise UsageError(f"FOLDER: {folder} holds {len(found)} runs; use a folder with two runs or more, such as runs/")
    return found


def build_history(runs: Sequence[Path], out: Path | None = None, policy: Policy | None = None) -> Path:
    """Writes the history page: to `out`, or to ``history.html`` beside the last run."""
    path = runs[-1].resolve().parent / "history.html" if out is None else out
    nights = _in_order([_night(run, policy) for run in runs])
    folder = path.resolve().parent
    links = {
        night.path: quote(Path(os.path.relpath(night.path / "report.html", folder)).as_posix()) for night in nights
    }
    page = render(
        "history/template.html.j2",
        nights=nights,
        links=links,
        charts=_charts(nights),
        lengths=lengths_of(nights),
        triage=triage(nights),
        false_alarms=FALSE_ALARMS,
    )
    write_atomically(path, page)
    return path


def _night(path: Path, policy: Policy | None) -> Night:
    run = load_run(path)
    judgement = judge_run(run, policy)
    words = {headline.variant: headline for headline in headlines(judgement)}
    entries = []
    for variant in run.baseline_first:
        if variant.role not in ("baseline", "candidate"):
            continue
        headline = words.get(variant.name)
        entries.append(
            Entry(
                variant=variant,
                scores={
                    kind: own_score(
                        run,
                        variant.name,
                        Scope("overall"),
                        confidence=judgement.policy.confidence,
                        kind=kind,
                        advisory=judgement.policy.advisory,
                    )
                    for kind in kinds_of(run)
                },
                headline=headline,
                rows={row.scope.context_length: row for row in judgement.of(variant.name, "length", "overall")},
                proven_safe=proven_safe(judgement.of(variant.name, "length")) if headline else None,
            )
        )
    manifest = run.manifest
    return Night(
        name=path.resolve().name,
        path=path.resolve(),
        created=manifest.created,
        status=manifest.status,
        engine=run.baseline.facts.engine_version,
        engine_changed=None,
        asked_changed=False,
        asked=(manifest.samples_sha256, manifest.inputs.get("model/config.json")),
        entries=tuple(entries),
    )


def _in_order(nights: Sequence[Night]) -> list[Night]:
    """Returns the nights by time, with what changed since the night before."""
    ordered: list[Night] = []
    for night in sorted(nights, key=lambda night: night.created):
        if ordered:
            before = ordered[-1]
            engine_changed = before.engine or "unknown" if night.engine != before.engine else None
            night = replace(night, engine_changed=engine_changed, asked_changed=night.asked != before.asked)
        ordered.append(night)
    return ordered


def _charts(nights: Sequence[Night]) -> list[Chart]:
    """Returns one chart for each kind of score that any night has."""
    names = [night.name for night in nights]
    kinds = [kind for kind in KIND_LABELS if any(kind in entry.scores for night in nights for entry in night.entries)]
    charts = []
    for kind in kinds:
        series: dict[str, list[tuple[int, Score]]] = {}
        for index, night in enumerate(nights):
            for entry in night.entries:
                scores = series.setdefault(entry.variant.name, [])
                if kind in entry.scores:
                    scores.append((index, entry.scores[kind]))
        title = "Overall score per night" + (f": {KIND_LABELS[kind]}" if len(kinds) > 1 else "")
        charts.append(night_chart(title, names, series))
    return charts
