"""Writes and reads blessed files: the answers of an approved run, small enough to be committed.

A blessed file is one JSON document with one line per sample. The same run gives the same bytes::

    {"blessed_version": 2, "content_sha256": ..., "run": {...}, "policy": {...}, "baseline": "bf16",
     "variants": {NAME: {"role", "spec", "facts", "findings"}}, "prompts_sha256": ...,
     "cells": [[TASK, FAMILY, CONTEXT_LENGTH], ...],
     "answers": [[SAMPLE_ID, HAYSTACK_ID, index into cells, ANSWER of each variant], ...]}

An ANSWER is [OUTCOME, SCORE, first 8 digits of the sha256 of the output], or null without a record. A sample with an
expected score has a fourth entry, [SCORE, UNIT, TEMPERATURE, 8 digits that stand for the forced texts].
Version 1 has no fourth entries.
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
from kveval.judge.comparison.pairing import forced_texts
from kveval.judge.questions import Questions, prompts_sha256
from kveval.judge.run_data import RunData
from kveval.run.facts import VOLATILE_FACTS, Facts, Finding, StoredFacts
from kveval.run.manifest import VariantName
from kveval.run.records import ExpectedScore, Outcome
from kveval.run.storage import Stored, first_problem, write_atomically

BLESSED_VERSION = 2

_EXPECTED = ("score", "unit", "temperature", "texts")


class BlessedVariant(Stored):
    role: Literal["baseline", "candidate"]
    spec: dict[str, Any]
    facts: StoredFacts
    findings: list[Finding]


class BlessedRun(Stored):
    """Says which run was blessed, and what a later run must have in common with it."""

    run_id: str
    created: str
    kveval_version: str
    inputs: dict[str, str]
    sampling: dict[str, Any]


class _StoredPolicy(Policy):
    """Reads the policy of any version. Keys that this version does not know are left out."""

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
    """Holds a blessed file that was read and checked.

    Attributes:
        questions: its samples have the columns haystack_id, task, family, context_length, and doc, which only says
            whether a sample is scored.
        records: by variant, indexed by sample_id: outcome, score, expected score, and as output its `digest`.
    """

    path: Path
    run: BlessedRun
    policy: Policy
    baseline: str
    variants: Mapping[str, BlessedVariant]
    questions: Questions
    records: Mapping[str, pd.DataFrame]


def bless(run: RunData, policy: Policy, out: Path) -> None:
    """Writes the answers of the baseline and the candidates of `run`.

    Check first that the run can be judged: see `kveval.judge.run_data.load_ended_run`.
    """
    write_atomically(out, _text(_content(run, policy)))


def load_blessed(path: Path) -> Blessed:
    """Reads a blessed file.

    Raises:
        BlessedFileError: the file does not exist, is no blessed file, was edited, or comes from a newer kveval.
    """
    if path.is_dir():
        raise BlessedFileError(f"{path}: is a folder; use a file that `kveval bless` wrote")
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
    """Returns eight hexadecimal digits that stand for an output."""
    return hashlib.sha256(output.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def comparable_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a variant without the path of its model, which depends on the machine."""
    return {key: value for key, value in spec.items() if key != "model"}


def stable_facts(facts: Facts) -> dict[str, Any]:
    return facts.model_dump(mode="json", exclude=set(VOLATILE_FACTS))


def _content(run: RunData, policy: Policy) -> dict[str, Any]:
    manifest = run.manifest
    # Sorted by name: the document lists variants and the answers of a sample in this order.
    kept = [v for _, v in sorted(manifest.variants.items()) if v.role in ("baseline", "candidate")]
    samples = run.samples.sort_index()
    places = samples[["task", "family", "context_length"]]
    cells = sorted(list(place) for place in {*places.itertuples(index=False, name=None)})
    position = {tuple(cell): index for index, cell in enumerate(cells)}
    records = {variant.name: run.records[variant.name].reindex(samples.index) for variant in kept}
    columns = [
        [
            None if pd.isna(outcome) else [outcome, float(score), digest(output), *_expected(expected)]
            for outcome, score, output, expected in rows
        ]
        for frame in records.values()
        for rows in [zip(frame["outcome"], frame["score"], frame["output"], frame["expected"], strict=True)]
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


def _expected(expected: Any) -> list[Any]:
    """Returns what is kept of an expected score: nothing if there is none."""
    if not isinstance(expected, Mapping):
        return []
    return [[expected["score"], expected["unit"], expected["temperature"], forced_texts(expected)]]


def _text(content: dict[str, Any]) -> str:
    """Returns the document with its hash, and one answer per line, so that version control shows what changed."""
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
        raise BlessedFileError(f"{path}: baseline {document.baseline!r} is not one of its variants")
    try:
        rows = [(str(row[0]), str(row[1]), *document.cells[row[2]]) for row in document.answers]
        answers = {
            name: [(str(row[0]), *_answer(row[3 + place])) for row in document.answers if row[3 + place] is not None]
            for place, name in enumerate(names)
        }
    except (IndexError, TypeError, ValueError) as error:
        raise BlessedFileError(f"{path}: answers: a line is not as expected ({error}); bless the run again") from error
    columns = ["sample_id", "outcome", "score", "output", "expected", "expected_error"]
    records = {name: _indexed(found, columns) for name, found in answers.items()}
    samples = _indexed(rows, ["sample_id", "haystack_id", "task", "family", "context_length"])
    unscored = {sample_id for frame in records.values() for sample_id in frame.index[frame["outcome"] == "unscored"]}
    docs: list[Any] = [{"scored": sample_id not in unscored} for sample_id in samples.index]
    samples["doc"] = pd.Series(docs, index=samples.index, dtype=object)
    questions = Questions(samples, document.prompts_sha256, document.run.sampling, document.run.inputs)
    return Blessed(
        path, document.run, document.policy, document.baseline, document.variants, questions, records
    )  # fmt: skip


class _Answer(Stored):
    outcome: Outcome
    score: Annotated[float, Field(ge=0, le=1)]
    output: str
    expected: ExpectedScore | None = None


def _answer(value: Any) -> tuple[str, float, str, dict[str, Any] | None, None]:
    outcome, score, output, *more = value
    expected = dict(zip(_EXPECTED, *more, strict=True)) if more else None
    said = {key: value for key, value in expected.items() if key != "texts"} if expected else None
    answer = _Answer.model_validate({"outcome": outcome, "score": score, "output": output, "expected": said})
    return answer.outcome, answer.score, answer.output, expected, None


def _indexed(rows: Iterable[tuple[Any, ...]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=columns).set_index("sample_id")


def digested(records: pd.DataFrame) -> pd.DataFrame:
    """Returns records with digests as outputs, as in `Blessed.records`."""
    return records.assign(output=records["output"].map(lambda output: digest(str(output))))
