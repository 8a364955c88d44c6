"""A run directory as tables: samples once, records by variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kveval.errors import IncomparableError, RunDirectoryError
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.samples import ids_sha256

SAMPLE_COLUMNS = (
    "sample_id", "haystack_id", "task", "family", "context_length", "prompt_tokens", "prompt_sha256", "depth_percent",
    "max_output_tokens", "doc",
)  # fmt: skip
RECORD_COLUMNS = (
    "sample_id", "outcome", "score", "output", "finish_reason", "output_token_ids", "logprobs", "prompt_tokens",
    "cached_tokens", "output_tokens", "ttft_ms", "itl_ms", "total_ms", "attempts", "error", "metrics",
    "sent_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunData:
    """
    Attributes:
        samples: one row per sample, indexed by sample_id, columns `SAMPLE_COLUMNS`.
        records: by variant, indexed by sample_id, columns `RECORD_COLUMNS`; samples without a record have no row.
    """

    path: Path
    manifest: Manifest
    samples: pd.DataFrame
    records: Mapping[str, pd.DataFrame]

    def variant(self, role: str, of: str | None = None) -> VariantRun | None:
        """The first variant with this role that belongs to `of` (any when None)."""
        found = (v for v in self.manifest.variants.values() if v.role == role and of in (None, v.of))
        return next(found, None)


def load_run(path: Path) -> RunData:
    """Reads a run, finished or not.

    Raises:
        RunDirectoryError: no or a broken manifest, a broken line, samples or records that are not the manifest's.
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
            f"{directory.manifest_path}: baseline {manifest.baseline!r} is none of its variants: "
            f"{', '.join(manifest.variants)}"
        )
    records = {}
    for variant in manifest.variants:
        frame = _frame((record.model_dump() for record in directory.records(variant)), RECORD_COLUMNS)
        unknown = frame.index.difference(samples.index)
        if len(unknown):
            raise RunDirectoryError(
                f"{directory.records_path(variant)}: sample {unknown[0]} is not in {directory.samples_path.name}"
            )
        records[variant] = frame
    return RunData(path, manifest, samples, records)


def check_comparable(first: RunData, second: RunData) -> None:
    """Two runs may be paired only when they asked the same.

    Sample ids hash the task, its version, the prompt, the references and the output budget, so equal ids mean equal
    prompts and scorers.

    Raises:
        IncomparableError: naming what differs.
    """
    runs = f"{first.path} and {second.path}"
    for task in sorted(set(first.samples["task"]) ^ set(second.samples["task"])):
        raise IncomparableError(f"{runs}: only one of them asked task {task!r}")
    missing = first.samples.index.symmetric_difference(second.samples.index)
    if len(missing):
        both = pd.concat([first.samples, second.samples])
        tasks = ", ".join(sorted(both.loc[missing, "task"].unique()))
        raise IncomparableError(
            f"{runs}: {len(missing)} samples were asked in only one of them (tasks {tasks}); other prompts, "
            "references, seeds or lengths make other samples"
        )
    hashes = second.samples["prompt_sha256"].reindex(first.samples.index)
    changed = first.samples.index[first.samples["prompt_sha256"] != hashes]
    if len(changed):
        raise IncomparableError(f"{runs}: sample {changed[0]} and {len(changed) - 1} others have different prompts")
    for key in sorted(set(first.manifest.sampling) | set(second.manifest.sampling)):
        ours, theirs = first.manifest.sampling.get(key), second.manifest.sampling.get(key)
        if ours != theirs:
            raise IncomparableError(f"{runs}: sampling setting {key!r} differs: {ours!r} and {theirs!r}")


def check_same_scorers(first: Mapping[str, str], second: Mapping[str, str], tasks: Iterable[str], runs: str) -> None:
    """Equal samples say nothing about what scored the answers to them.

    Args:
        first: `Manifest.inputs` of one run.
        second: of the other.
        tasks: the names of what both asked.
        runs: both, as the message names them.

    Raises:
        IncomparableError: a task or a file beside its YAML is another one.
    """
    for task in sorted(tasks):
        for name in (f"task/{task}", f"task/{task}/files"):
            if first.get(name) != second.get(name):
                raise IncomparableError(f"{runs}: a task or its scorer differs ({name}); allowed: the same task files")


def _frame(rows: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    kept = [[row[column] for column in columns] for row in rows]
    return pd.DataFrame(kept, columns=list(columns), dtype=object).set_index("sample_id").infer_objects()
