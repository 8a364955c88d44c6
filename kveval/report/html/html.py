"""The report: one self-contained HTML file about one run."""

from __future__ import annotations

from pathlib import Path

from kveval.judge.diff import judge_run
from kveval.judge.run_data import load_run
from kveval.judge.verdicts import Policy
from kveval.report.html import view
from kveval.report.html.page import render
from kveval.report.sections.answer.answer import answers
from kveval.report.sections.cold.cold import cold_table
from kveval.report.sections.cost.capacity import capacity_table
from kveval.report.sections.cost.cost import cost_table, times_table
from kveval.report.sections.flips.flips import flips_section
from kveval.report.sections.load.load import load_section
from kveval.report.sections.speculation.speculation import speculation_table
from kveval.report.sections.where.heatmap import depth_heatmaps, quarter_heatmaps, tasks_with_depth
from kveval.run.storage import write_atomically


def build_report(run_dir: Path, out: Path | None = None, policy: Policy | None = None) -> Path:
    """Writes the report of a run, finished or not; ``RUN/report.html`` unless `out` says otherwise.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
        StorageError: the report cannot be written.
    """
    run = load_run(run_dir)
    judgement = judge_run(run, policy)
    scores = view.scores_table(run, judgement.policy.confidence)
    with_depth = tasks_with_depth(run)
    page = render(
        "report.html.j2",
        name=run_dir.resolve().name,
        manifest=run.manifest,
        policy=judgement.policy,
        answers=answers(run, judgement),
        scores=scores,
        charts=view.charts(run, scores, judgement.policy.confidence),
        heatmaps=depth_heatmaps(run),
        heatmaps_by_task=[(task, depth_heatmaps(run, task)) for task in with_depth] if len(with_depth) > 1 else [],
        quarters=quarter_heatmaps(run),
        outcomes=view.outcomes_table(run),
        noise=view.noise_table(judgement, run),
        drift=view.drift_table(run),
        prefix_cache=cold_table(run),
        flips=flips_section(run),
        facts=view.facts_table(run),
        variants=view.baseline_first(run),
        cost=cost_table(run),
        times=times_table(run),
        capacities=capacity_table(run),
        load=load_section(run_dir),
        speculation=speculation_table(run, judgement),
    )
    path = run_dir / "report.html" if out is None else out
    write_atomically(path, page)
    return path
