"""Tells whether a run can be judged, and which of its variants the infrastructure spoiled."""

from __future__ import annotations

import fcntl
from pathlib import Path

from kveval.config.judge import Policy
from kveval.errors import RunDirectoryError
from kveval.judge.comparison.pairing import incomplete_reason
from kveval.judge.run_data import RunData, load_run
from kveval.run.manifest import VariantRun


def load_ended_run(path: Path) -> RunData:
    """Reads a run that no sweep writes any more, and that holds every record its manifest promises.

    Raises:
        RunDirectoryError: a sweep is still writing, there are no samples, or records are missing.
    """
    if _is_being_written(path):
        raise RunDirectoryError(f"{path}: a sweep is still writing here; wait until it has ended")
    run = load_run(path)
    if run.samples.empty:
        raise RunDirectoryError(f"{path}: holds no samples; there is nothing to judge")
    for variant in run.manifest.variants.values():
        lacking = len(asked(run, variant)) - len(run.records[variant.name])
        if variant.status == "complete" and lacking > 0:
            raise RunDirectoryError(
                f"{path}: {variant.name} is complete by the manifest, but {lacking} of its "
                f"{len(asked(run, variant))} records are missing from records/{variant.name}.jsonl; "
                "the file was cut: copy it again, or ask what is missing with `kveval sweep ... --resume`"
            )
    return run


def asked(run: RunData, variant: VariantRun) -> list[str]:
    """Returns the ids of the samples that `variant` was asked."""
    if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
        wanted = set(run.manifest.aa_sample_ids)
        return [sample_id for sample_id in run.samples.index if sample_id in wanted]
    return list(run.samples.index)


def unanswered(run: RunData, variant: VariantRun) -> int:
    """Counts the samples that `variant` was asked and did not answer: engine errors, and samples without a record."""
    ids = asked(run, variant)
    outcomes = run.records[variant.name]["outcome"].reindex(ids)
    return int((outcomes.isna() | (outcomes == "engine_error")).sum())


def infrastructure_problem(run: RunData, variant: VariantRun, policy: Policy) -> str | None:
    """Returns why `variant` says nothing about quality. None if it completed and answered."""
    stopped = incomplete_reason(variant)
    if stopped:
        return stopped
    lost, total = unanswered(run, variant), len(asked(run, variant))
    if lost > policy.max_unanswered_share * total:
        records = run.records[variant.name]
        errors = records.loc[records["outcome"] == "engine_error", "error"].dropna()
        example = f"; the first error: {errors.iloc[0]['message']}" if len(errors) else ""
        return (
            f"{variant.name}: {lost} of {total} samples have no answer ({lost / total:.1%}, and the limit is "
            f"{policy.max_unanswered_share:.1%}){example}"
        )
    return None


def _is_being_written(path: Path) -> bool:
    try:
        with (path / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # Without a lock file, or on a file system without locks, nothing shows that a sweep writes here.
        return False
    return False
