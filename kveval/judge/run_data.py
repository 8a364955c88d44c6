"""A run as the judge reads it: its samples and records as tables, its policy, and whether it can be judged."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from kveval.config.judge import Policy
from kveval.config.messages import explain
from kveval.errors import ConfigError, RunDirectoryError
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import SentinelRecord, ids_sha256, too_few_answers

SAMPLE_COLUMNS = (
    "sample_id", "haystack_id", "task", "family", "context_length", "prompt_tokens", "prompt_sha256", "depth_percent",
    "max_output_tokens", "doc", "first_look",
)  # fmt: skip
RECORD_COLUMNS = (
    "sample_id", "outcome", "score", "output", "finish_reason", "output_token_ids", "logprobs", "prompt_tokens",
    "cached_tokens", "output_tokens", "degenerate", "ttft_ms", "itl_ms", "total_ms", "attempts", "error", "metrics",
    "sent_at", "expected", "expected_error", "arrived_at_once",
    "reused_from", "steps", "step_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunData:
    """Holds everything a run wrote down.

    Attributes:
        samples: one row per sample, indexed by sample_id, with the columns `SAMPLE_COLUMNS`.
        records: by variant, indexed by sample_id, with the columns `RECORD_COLUMNS`. A sample without a record has no
            row.
        sentinels: by variant, what was asked again while it was asked, in the order of asking.
    """

    path: Path
    manifest: Manifest
    samples: pd.DataFrame
    records: Mapping[str, pd.DataFrame]
    sentinels: Mapping[str, tuple[SentinelRecord, ...]] = field(default_factory=dict)

    @property
    def baseline(self) -> VariantRun:
        return self.manifest.variants[self.manifest.baseline]

    @property
    def aa(self) -> VariantRun | None:
        """The second run of the baseline, if there is one."""
        return self.variant("aa", self.manifest.baseline)

    @property
    def baseline_first(self) -> list[VariantRun]:
        """Every variant: the baseline, then the others in their order."""
        return sorted(self.manifest.variants.values(), key=lambda variant: variant.name != self.manifest.baseline)

    def variant(self, role: str, of: str | None = None) -> VariantRun | None:
        """Returns the first variant with this role that belongs to the variant `of`, or to any if `of` is None."""
        found = (v for v in self.manifest.variants.values() if v.role == role and of in (None, v.of))
        return next(found, None)

    def asked_here(self, variant: str) -> pd.DataFrame:
        """Returns the records of `variant` that this run asked itself. Others were taken from an earlier run.

        Only these say something about its server in time, and about what the run cost.
        """
        records = self.records[variant]
        return records[records["reused_from"].isna()]

    def has_own_model(self, variant: VariantRun) -> bool:
        """Returns whether the configuration gives `variant` another model than the baseline's."""
        return bool(variant.spec.get("model") != self.baseline.spec.get("model"))

    def asked(self, variant: VariantRun) -> pd.Index:
        """Returns the ids of the samples that `variant` was asked.

        An A/A run is asked a part of all, and a variant that is decided early is not asked the rest.
        """
        ids, chosen = self.samples.index, self.manifest.aa_sample_ids
        is_asked = ids.isin(chosen) if variant.role == "aa" and chosen is not None else np.ones(len(ids), dtype=bool)
        for context_length, stop in variant.stopped.items():
            is_over = (self.samples["context_length"] == context_length) & (self.samples["first_look"] > stop.look)
            is_asked &= ~is_over.to_numpy(dtype=bool)
        return ids[is_asked]


def load_run(path: Path) -> RunData:
    """Reads a run, finished or not.

    Raises:
        RunDirectoryError: the manifest is missing or broken, a line is broken, or samples and manifest do not match.
    """
    directory = RunDirectory(path)
    manifest = directory.read_manifest()
    samples = _frame((row.model_dump() for row in directory.samples()), SAMPLE_COLUMNS)
    if manifest.status == "complete" and not directory.samples_path.is_file():
        raise RunDirectoryError(f"{directory.samples_path}: is missing; `kveval sweep --resume` writes it again")
    if (len(samples) or manifest.status == "complete") and ids_sha256(samples.index) != manifest.samples_sha256:
        raise RunDirectoryError(
            f"{directory.samples_path}: holds {len(samples)} samples that are not the {manifest.samples} of the "
            "manifest (samples_sha256 differs)"
        )
    if manifest.baseline not in manifest.variants:
        raise RunDirectoryError(
            f"{directory.manifest_path}: baseline {manifest.baseline!r} is not one of its variants: "
            f"{', '.join(manifest.variants)}"
        )
    records = {}
    for variant in manifest.variants:
        rows = (
            record.model_dump() | {"arrived_at_once": record.arrived_at_once} for record in directory.records(variant)
        )
        frame = _frame(rows, RECORD_COLUMNS)
        unknown = frame.index.difference(samples.index)
        if len(unknown):
            raise RunDirectoryError(
                f"{directory.records_path(variant)}: sample {unknown[0]} is not in {directory.samples_path.name}"
            )
        records[variant] = frame
    sentinels = {variant: tuple(directory.sentinel_records(variant)) for variant in manifest.variants}
    return RunData(path, manifest, samples, records, sentinels)


def _frame(rows: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    kept = [[row[column] for column in columns] for row in rows]
    return pd.DataFrame(kept, columns=list(columns), dtype=object).set_index("sample_id").infer_objects()


def policy_of(manifest: Manifest, overrides: Mapping[str, Any] | None = None) -> Policy:
    """Returns the policy the run was configured with. `overrides` replace its keys, and single margins.

    Raises:
        ConfigError: an unknown key, or a value that is not allowed.
    """
    configured = manifest.config.get("judge") or {}
    if not isinstance(configured, Mapping):
        raise ConfigError(f"judge: {configured!r} is not a mapping of keys to values")
    return check_policy(with_overrides(configured, overrides or {}))


def check_policy(values: Mapping[str, Any]) -> Policy:
    """Returns the policy of these keys. Raises ConfigError: an unknown key, or a value that is not allowed."""
    try:
        return Policy.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, Policy, within="judge")) from error


def with_overrides(policy: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of `policy`, replaced by those of `overrides`. Margins and tiers of families add up."""
    values = {**policy, **overrides}
    for key in ("margins", "unit_margins", "tiers"):
        if key in overrides:
            values[key] = {**(policy.get(key) or {}), **overrides[key]}
    return values


def incomplete_reason(variant: VariantRun) -> str | None:
    """Returns why `variant` is not complete, and so cannot pass. None if it is complete."""
    if variant.status == "complete":
        return None
    done = {"planned": "not measured yet", "running": "not finished"}.get(variant.status, variant.status)
    return f"{variant.name} {done}" + (f": {variant.reason}" if variant.reason else "")


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
        asked = len(run.asked(variant))
        lacking = asked - len(run.records[variant.name])
        if variant.status == "complete" and lacking > 0:
            raise RunDirectoryError(
                f"{path}: {variant.name} is complete by the manifest, but {lacking} of its {asked} records are "
                f"missing from records/{variant.name}.jsonl; "
                "the file was cut: copy it again, or ask what is missing with `kveval sweep ... --resume`"
            )
    return run


def unanswered_reason(run: RunData, variant: VariantRun, policy: Policy) -> str | None:
    """Returns why too few samples of `variant` have an answer. None if enough have one."""
    records = run.records[variant.name]
    outcomes = records["outcome"].reindex(run.asked(variant))
    lost, total = int((outcomes.isna() | (outcomes == "engine_error")).sum()), len(outcomes)
    errors = records.loc[records["outcome"] == "engine_error", "error"].dropna()
    first = str(errors.iloc[0]["message"]) if len(errors) else None
    problem = too_few_answers(lost, total, policy.max_unanswered_share, first)
    return f"{variant.name}: {problem}" if problem else None


def _is_being_written(path: Path) -> bool:
    try:
        with (path / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        # Without a lock file, or on a file system without locks, nothing shows that a sweep writes here.
        return isinstance(error, BlockingIOError)
    return False
