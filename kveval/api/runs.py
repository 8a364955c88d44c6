"""Reads, judges and shows runs. None of this needs an engine or a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kveval.judge import run_data
from kveval.judge.gate.gate import Gate
from kveval.judge.gate.gate import gate as judge_gate
from kveval.judge.recommend.recommend import Recommendation
from kveval.judge.recommend.recommend import recommend as judge_recommend
from kveval.judge.run_data import RunData
from kveval.measure.rebuild import AskedSample, asked_sample
from kveval.report.documents import listing
from kveval.report.documents.diff import compare, diff_document
from kveval.report.documents.listing import ListedRun
from kveval.report.history import nights
from kveval.report.html import report


def load_run(path: str | Path) -> RunData:
    """Reads a run directory, finished or not.

    Args:
        path: the folder that `kveval.sweep` wrote.

    Returns:
        The manifest, one table of samples, and one table of records for each variant (pandas, indexed by sample_id).

    Raises:
        RunDirectoryError: the folder holds no run, or a broken one.

    Example:
        >>> run = kveval.load_run("runs/tonight")
        >>> run.manifest.status
        'complete'
        >>> scores = {name: round(records["score"].mean(), 2) for name, records in run.records.items()}
    """
    return run_data.load_run(Path(path))


def list_runs(folder: str | Path = "runs") -> list[ListedRun]:
    """Lists the runs in a folder, the newest first: ``kveval runs --json``. Judges nothing again.

    Args:
        folder: it holds run directories. A run directory itself is listed alone.

    Returns:
        What each measured, with the verdicts that the gate last wrote. A folder that holds no run comes last, with its
        `ListedRun.problem`.

    Raises:
        RunDirectoryError: there is no such folder, or it cannot be read.

    Example:
        >>> sorted((run.name, run.status, run.verdict.reason) for run in kveval.list_runs("runs"))
        [('monday', 'complete', 'not judged'), ('tonight', 'complete', 'not judged')]
    """
    return listing.list_runs(Path(folder))


def gate(run: str | Path, *, against: str | Path | None = None, **policy: Any) -> Gate:
    """Decides whether a run passes. Writes nothing; ``kveval gate`` does the same and writes reports.

    Args:
        run: a run directory.
        against: a blessed file. Then every variant is also compared with itself in that run.
        **policy: keys of `judge` in the configuration, such as ``margin=0.01`` or ``margins={"needle": 0.01}``. They
            replace the run's own.

    Returns:
        `Gate.state` ("pass", "regression", "infrastructure" or "undecided"), the checks it rests on, and the exit
        code of the command.

    Raises:
        UsageError: the folder holds no run that can be judged, or a key of the policy is wrong.
        IncomparableError: the blessed run asked other questions.

    Example:
        >>> decision = kveval.gate("runs/tonight", margin=0.03)
        >>> for check in decision.checks:
        ...     print(check.variant, check.state)
        fp8 pass
    """
    return judge_gate(Path(run), against=Path(against) if against else None, overrides=policy)


def diff(first: str | Path, second: str | Path) -> dict[str, Any]:
    """Compares two runs or two variants, sample by sample: ``kveval diff --json``.

    Args:
        first: a run directory, ``RUN:VARIANT``, or a blessed file.
        second: what is compared with it.

    Returns:
        For each pair of variants: scores before and after, the difference with its interval, samples lost and gained,
        and engine facts that changed, as data for JSON.

    Raises:
        UsageError: one of them cannot be read.
        IncomparableError: they did not ask the same questions.

    Example:
        >>> changes = kveval.diff("runs/tonight:bf16", "runs/tonight:fp8")
        >>> overall = changes["pairs"][0]["rows"][0]
        >>> overall["lost"], overall["gained"]
        (0, 0)
    """
    return diff_document(compare(str(first), str(second)))


def recommend(run: str | Path, *, sequences: int | None = None, **policy: Any) -> Recommendation:
    """Picks the setting to serve with: of those that pass, the one that frees most memory.

    Args:
        run: a run directory.
        sequences: requests at once, for which you also want the longest context.
        **policy: as `gate` takes it.

    Returns:
        `Recommendation.chosen` (None: stay with the baseline), why, and the flags of both.

    Raises:
        UsageError, IncomparableError: as `gate` does.

    Example:
        >>> advice = kveval.recommend("runs/tonight", margin=0.03)
        >>> "stay with the baseline" if advice.chosen is None else advice.serve.shell
        'stay with the baseline'
    """
    return judge_recommend(Path(run), overrides=policy, sequences=sequences)


def build_report(run: str | Path, out: str | Path | None = None) -> Path:
    """Writes the HTML report of a run again: ``kveval report``.

    Args:
        run: a run directory.
        out: where to write. Default: ``report.html`` in the run directory.

    Returns:
        The file.

    Raises:
        RunDirectoryError: the folder holds no run, or a broken one.
        StorageError: the file cannot be written.

    Example:
        >>> kveval.build_report("runs/tonight").name
        'report.html'
    """
    return report.build_report(Path(run), Path(out) if out else None)


def build_history(folder: str | Path, out: str | Path | None = None) -> Path:
    """Writes one page of all runs in a folder, and the report of each: ``kveval history``.

    Args:
        folder: holds the run directories.
        out: where to write. Default: ``history.html`` in the folder.

    Returns:
        The file.

    Raises:
        UsageError: the folder holds fewer than two runs.
        RunDirectoryError: one of them is broken.

    Example:
        >>> kveval.build_history("runs").name
        'history.html'
    """
    runs = nights.runs_in(Path(folder))
    return nights.build_reports(runs, Path(out) if out else Path(folder) / "history.html")[-1][1]


def show_sample(run: str | Path, sample_id: str) -> AskedSample:
    """Builds the full prompt of one sample again, and collects what every variant answered: ``kveval show``.

    Args:
        run: a run directory.
        sample_id: a sample id, or a beginning that only one sample has.

    Returns:
        The prompt byte for byte as it was asked, and the record of every variant.

    Raises:
        RunDirectoryError: the run has no such sample, or what decides the prompt has changed.

    Example:
        >>> sample_id = kveval.load_run("runs/demo").samples.index[0]
        >>> asked = kveval.show_sample("runs/demo", sample_id)
        >>> asked.records["fp8"].outcome
        'correct'
    """
    return asked_sample(Path(run), sample_id)
