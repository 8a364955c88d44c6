"""The blessed file: what a run answered, small enough to be committed, for later runs to be held against.

One JSON document, one line per sample, the same bytes for the same run::

    {"blessed_version": 1, "content_sha256": ..., "run": {...}, "policy": {...}, "baseline": "bf16",
     "variants": {NAME: {"role", "spec", "facts", "findings"}}, "prompts_sha256": ...,
     "cells": [[TASK, FAMILY, CONTEXT_LENGTH], ...],
     "answers": [[SAMPLE_ID, HAYSTACK_ID, index into cells, ANSWER of each variant], ...]}

An ANSWER is [OUTCOME, SCORE, first 8 digits of the output's sha256], or null without a record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import ConfigDict, Field, ValidationError

from kveval.config.judge import Policy
from kveval.errors import BlessedFileError
from kveval.judge.run_data import RunData
from kveval.run.facts import Facts, StoredFacts
from kveval.run.findings import Finding
from kveval.run.manifest import VariantName
from kveval.run.records import Outcome
from kveval.run.storage import Stored, first_problem, write_atomically

BLESSED_VERSION = 1
# They differ between launches of the same engine on the same machine.
VOLATILE_FACTS = {"startup_seconds", "kv_cache_gib", "log_path"}

Score = Annotated[float, Field(ge=0, le=1)]


class BlessedVariant(Stored):
    role: Literal["baseline", "candidate"]
    spec: dict[str, Any]
    facts: StoredFacts
    findings: list[Finding]


class BlessedRun(Stored):
    """Where the file comes from, and what must be the same for a later run to be held against it."""

    run_id: str
    created: str
    kveval_version: str
    inputs: dict[str, str]
    sampling: dict[str, Any]


class _StoredPolicy(Policy):
    """The policy of any version; keys that this version does not know are left out."""

    model_config = ConfigDict(extra="ignore")


class _Document(Stored):
    blessed_version: int
    content_sha256: str
    run: BlessedRun
    policy: _StoredPolicy
    baseline: str
    variants: dict[VariantName, BlessedVariant] = Field(min_length=1)
    prompts_sha256: str
    cells: list[tuple[str, str, int]]
    answers: list[list[Any]] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Blessed:
    """A blessed file, read and checked.

    Attributes:
        samples: indexed by sample_id, columns haystack_id, task, family, context_length, and doc, of which a blessed
            file knows only whether the sample is scored.
        records: by variant, indexed by sample_id, columns outcome, score, output; an output is its `digest`.
    """

    path: Path
    run: BlessedRun
    policy: Policy
    baseline: str
    variants: Mapping[str, BlessedVariant]
    prompts_sha256: str
    samples: pd.DataFrame
    records: Mapping[str, pd.DataFrame]


def bless(run: RunData, policy: Policy, out: Path) -> None:
    """Writes the answers of the baseline and the candidates of `run`.

    The run is expected to be fit for it: see `kveval.judge.run_health`.

    Raises:
        StorageError: `out` cannot be written.
    """
    write_atomically(out, _text(_content(run, policy)))


def load_blessed(path: Path) -> Blessed:
    """
    Raises:
        BlessedFileError: no such file, not a blessed file, edited since, or of a newer kveval.
    """
    if path.is_dir():
        raise BlessedFileError(f"{path}: is a folder; allowed: a file that `kveval bless` wrote")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BlessedFileError(f"{path}: no such file; `kveval bless RUN --out {path}` makes one") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BlessedFileError(f"{path}: not readable as JSON: {error}; bless the run again") from error
    if not isinstance(data, dict) or "blessed_version" not in data:
        raise BlessedFileError(f"{path}: not a file that `kveval bless` wrote (it has no blessed_version)")
    if isinstance(data["blessed_version"], int) and data["blessed_version"] > BLESSED_VERSION:
        raise BlessedFileError(
            f"{path}: blessed_version {data['blessed_version']} is newer than this kveval reads ({BLESSED_VERSION}); "
            "update kveval"
        )
    if data.get("content_sha256") != _content_sha256(data):
        raise BlessedFileError(
            f"{path}: was changed since it was blessed (content_sha256 does not match its content); "
            "bless the run again instead of editing the file"
        )
    try:
        document = _Document.model_validate(data)
        return _blessed(path, document)
    except ValidationError as error:
        raise BlessedFileError(f"{path}: {first_problem(error)}; bless the run again") from error


def digest(output: str) -> str:
    """Eight hexadecimal digits that stand for an output."""
    return hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def prompts_sha256(samples: pd.DataFrame) -> str:
    """Of every prompt, in the order of the sample ids; columns as in `RunData.samples`."""
    lines = (f"{sample_id} {value}" for sample_id, value in samples["prompt_sha256"].sort_index().items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def comparable_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A variant's settings without where its model lies on this machine."""
    return {key: value for key, value in spec.items() if key != "model"}


def stable_facts(facts: Facts) -> dict[str, Any]:
    return facts.model_dump(mode="json", exclude=set(VOLATILE_FACTS))


def _content(run: RunData, policy: Policy) -> dict[str, Any]:
    manifest = run.manifest
    # By name, as the document lists them: the answers of a sample stand in the same order.
    kept = [v for _, v in sorted(manifest.variants.items()) if v.role in ("baseline", "candidate")]
    samples = run.samples.sort_index()
    places = samples[["task", "family", "context_length"]]
    cells = sorted(list(place) for place in {*places.itertuples(index=False, name=None)})
    position = {tuple(cell): index for index, cell in enumerate(cells)}
    records = {variant.name: run.records[variant.name].reindex(samples.index) for variant in kept}
    columns = [
        [None if pd.isna(outcome) else [outcome, float(score), digest(output)] for outcome, score, output in rows]
        for frame in records.values()
        for rows in [zip(frame["outcome"], frame["score"], frame["output"], strict=True)]
    ]
    rows = zip(samples.index, samples["haystack_id"], places.itertuples(index=False, name=None), *columns, strict=True)
    return {
        "blessed_version": BLESSED_VERSION,
        "run": {
            "run_id": manifest.run_id,
            "created": manifest.created,
            "kveval_version": manifest.kveval_version,
            "inputs": manifest.inputs,
            "sampling": manifest.sampling,
        },
        "policy": policy.model_dump(),
        "baseline": manifest.baseline,
        "variants": {
            variant.name: {
                "role": variant.role,
                "spec": comparable_spec(variant.spec),
                "facts": stable_facts(variant.facts),
                "findings": [finding.model_dump() for finding in variant.findings],
            }
            for variant in kept
        },
        "prompts_sha256": prompts_sha256(samples),
        "cells": cells,
        "answers": [[sample_id, haystack, position[place], *answers] for sample_id, haystack, place, *answers in rows],
    }


def _text(content: dict[str, Any]) -> str:
    """The document with its hash, the answers one to a line, so that version control shows what changed."""
    sealed = {**content, "content_sha256": _content_sha256(content)}
    answers = sealed.pop("answers")
    head = json.dumps(sealed, indent=1, sort_keys=True, allow_nan=False).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(answer, allow_nan=False) for answer in answers)
    return f'{head},\n "answers": [\n{lines}\n ]\n}}\n'


def _content_sha256(document: Mapping[str, Any]) -> str:
    content = {key: value for key, value in document.items() if key != "content_sha256"}
    try:
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return "not finite"
    return hashlib.sha256(canonical.encode()).hexdigest()


def _blessed(path: Path, document: _Document) -> Blessed:
    names = list(document.variants)
    if document.baseline not in names:
        raise BlessedFileError(f"{path}: baseline {document.baseline!r} is none of its variants")
    try:
        rows = [(str(row[0]), str(row[1]), *document.cells[row[2]]) for row in document.answers]
        answers = {
            name: [(str(row[0]), *_answer(row[3 + place])) for row in document.answers if row[3 + place] is not None]
            for place, name in enumerate(names)
        }
    except (IndexError, TypeError, ValueError) as error:
        raise BlessedFileError(f"{path}: answers: a line has another form ({error}); bless the run again") from error
    records = {name: _indexed(found, ["sample_id", "outcome", "score", "output"]) for name, found in answers.items()}
    samples = _indexed(rows, ["sample_id", "haystack_id", "task", "family", "context_length"])
    unscored = {sample_id for frame in records.values() for sample_id in frame.index[frame["outcome"] == "unscored"]}
    docs: list[Any] = [{"scored": sample_id not in unscored} for sample_id in samples.index]
    samples["doc"] = pd.Series(docs, index=samples.index, dtype=object)
    return Blessed(
        path, document.run, document.policy, document.baseline, document.variants, document.prompts_sha256,
        samples, records,
    )  # fmt: skip


class _Answer(Stored):
    outcome: Outcome
    score: Score
    output: str


def _answer(value: Any) -> tuple[str, float, str]:
    outcome, score, output = value
    answer = _Answer(outcome=outcome, score=score, output=output)
    return answer.outcome, answer.score, answer.output


def _indexed(rows: Iterable[tuple[Any, ...]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=columns).set_index("sample_id")


def digested(records: pd.DataFrame) -> pd.DataFrame:
    """`RunData.records` of one variant with its outputs as `Blessed.records` has them."""
    return records.assign(output=records["output"].map(lambda output: digest(str(output))))
