"""Whether a run can be judged at all, and what of it the infrastructure spoiled."""

from __future__ import annotations

import fcntl
from pathlib import Path

from kveval.config.judge import Policy
from kveval.errors import RunDirectoryError
from kveval.judge.comparison.variant_pair import incomplete_reason
from kveval.judge.run_data import RunData, load_run
from kveval.run.manifest import VariantRun


def load_ended_run(path: Path) -> RunData:
    """A run that no sweep is writing any more, with samples, and with every record it claims to have.

    Raises:
        RunDirectoryError: it is none; the message says why.
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
    """Ids of the samples `variant` was to answer."""
    if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
        wanted = set(run.manifest.aa_sample_ids)
        return [sample_id for sample_id in run.samples.index if sample_id in wanted]
    return list(run.samples.index)


def unanswered(run: RunData, variant: VariantRun) -> int:
    """Samples that `variant` was to answer and did not: engine errors, and those without a record."""
    ids = asked(run, variant)
    outcomes = run.records[variant.name]["outcome"].reindex(ids)
    return int((outcomes.isna() | (outcomes == "engine_error")).sum())


def infrastructure_problem(run: RunData, variant: VariantRun, policy: Policy) -> str | None:
    """Why `variant` says nothing about quality; None when it ran to its end and answered."""
    stopped = incomplete_reason(variant)
    if stopped:
        return stopped
    lost, total = unanswered(run, variant), len(asked(run, variant))
    if lost > policy.max_unanswered_share * total:
        records = run.records[variant.name]
        errors = records.loc[records["outcome"] == "engine_error", "error"].dropna()
        example = f"; the first: {errors.iloc[0]['message']}" if len(errors) else ""
        return (
            f"{variant.name}: {lost} of {total} samples have no answer ({lost / total:.1%}, allowed "
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
        # No lock, or a file system without any: nothing says that somebody writes.
        return False
    return False
