"""Pairs two variants: puts the answers of every side to one sample into one row."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from kveval.judge.run_data import RunData, incomplete_reason
from kveval.run.looks import Look
from kveval.run.manifest import INTERRUPTED, VariantRun

Side = Literal["baseline", "candidate", "aa", "control"]
Unit = Literal["probability", "token_accuracy", "entries"]
UNITS: tuple[Unit, ...] = get_args(Unit)


def pair(samples: pd.DataFrame, sides: Mapping[Side, pd.DataFrame]) -> pd.DataFrame:
    """Joins the records of every side to `samples` by sample_id.

    Args:
        samples: as in `RunData.samples`.
        sides: records as in `RunData.records`; "baseline" and "candidate" are required.

    Returns:
        One row per sample, with the columns of `samples`, ``scored`` (`has_right_answer`), and for every side
        ``SIDE_answered`` (False for an engine error or no record), ``SIDE_outcome`` ("missing" without a record),
        ``SIDE_score`` in [0, 1], ``SIDE_correct``, ``SIDE_expected`` (the expected score, NaN without one) and
        ``SIDE_format`` (the probability of what surrounds the values of a call or record, NaN without them). All sides
        but the baseline also have ``SIDE_identical``: the output equals the baseline's, character by character.
        ``unit``: of the expected score that the sample has or should have. None if greedy answers are all there is.
        ``temperature`` and ``method``: of the baseline's expected score, NaN and None without one.
    """
    table = samples.assign(scored=has_right_answer(samples))
    said = {side: _said(records.reindex(samples.index)["expected"]) for side, records in sides.items()}
    table["unit"] = _units(samples["task"], said, sides)
    table["temperature"], table["method"] = said["baseline"]["temperature"], said["baseline"]["method"]
    outputs: dict[Side, pd.Series] = {}
    for side, records in sides.items():
        aligned = records.reindex(samples.index)
        outcome = aligned["outcome"].fillna("missing").astype(str)
        table[f"{side}_outcome"] = outcome
        table[f"{side}_answered"] = ~outcome.isin(["missing", "engine_error"])
        table[f"{side}_score"] = aligned["score"].fillna(0.0).astype(float)
        table[f"{side}_correct"] = outcome == "correct"
        # Probabilities of other texts, or at another temperature, are not comparable with the baseline's.
        is_same = said[side]["unit"] == table["unit"]
        for key in ("temperature", "texts"):
            is_same &= said[side][key] == said["baseline"][key]
        table[f"{side}_expected"] = said[side]["score"].where(is_same)
        table[f"{side}_format"] = said[side]["format"].where(is_same)
        outputs[side] = aligned["output"]
    for side in sides:
        if side != "baseline":
            table[f"{side}_identical"] = (outputs[side] == outputs["baseline"]).to_numpy(dtype=bool)
    return table


def forced_texts(expected: Mapping[str, Any]) -> str:
    """Returns eight hexadecimal digits that stand for the texts whose probability was read, and for how."""
    if "texts" in expected:  # of a blessed file, which keeps no tokens
        return str(expected["texts"])
    read, method = expected.get("token_ids"), expected.get("method", "forced_decode")
    key = read if method == "forced_decode" else (method, read)
    return hashlib.sha256(repr(key).encode()).hexdigest()[:8]


def _said(expected: pd.Series) -> pd.DataFrame:
    """Returns what each record's expected score is, and of which texts; nothing where it has none."""
    rows = [
        {**one, "texts": forced_texts(one), "format": (one.get("parts") or {}).get("format")}
        if isinstance(one, Mapping)
        else {}
        for one in expected
    ]
    keys = ("score", "unit", "temperature", "method", "texts", "format")
    table = pd.DataFrame({key: [row.get(key) for row in rows] for key in keys}, index=expected.index, dtype=object)
    return table.astype({"score": float, "temperature": float, "format": float})


def _units(tasks: pd.Series, said: Mapping[Side, pd.DataFrame], sides: Mapping[Side, pd.DataFrame]) -> pd.Series:
    """Returns the unit of each sample's expected score.

    A sample whose score is missing on every side, because it could not be forced or was not answered, has the unit of
    its task: it was asked, and counts as unanswered. One that the baseline or the candidate answered and was never
    forced to answer has none: its greedy answers are judged. An A/A run is asked a part of the samples, and a control
    may have stopped, so what they lack says nothing.
    """
    units = pd.Series(None, index=tasks.index, dtype=object)
    for table in said.values():
        units = units.where(units.notna(), table["unit"])
    lacking, greedy_only = pd.Series(False, index=tasks.index), pd.Series(False, index=tasks.index)
    judged: tuple[Side, Side] = ("baseline", "candidate")
    for side in judged:
        records = sides[side].reindex(tasks.index)
        failed = records["outcome"].isna() | (records["outcome"] == "engine_error") | records["expected_error"].notna()
        lacking |= failed
        greedy_only |= ~failed & said[side]["unit"].isna()
    of_task = tasks.map(units.groupby(tasks).first())
    units = units.where(units.notna() | ~lacking, of_task)
    units[greedy_only] = None
    return units


def has_right_answer(samples: pd.DataFrame) -> np.ndarray:
    """Returns bool [samples]. A prompt of the user with ``scorer: none`` has no right answer, and so no score."""
    return np.array([doc.get("scored", True) for doc in samples["doc"]], dtype=bool)


def answered_by(table: pd.DataFrame, *sides: Side) -> pd.DataFrame:
    """Returns the rows that all `sides` answered."""
    return table[table[[f"{side}_answered" for side in sides]].all(axis="columns")]


@dataclass(frozen=True, slots=True)
class VariantPair:
    """Holds the paired records of a variant and of what it is compared with.

    Attributes:
        variant, against: names of the candidate's and of the baseline's side.
        table: as `pair` makes it.
        control: name of the emulated control, if `table` has one.
        judged: whether the comparison gets a verdict. Controls get none.
        obstacle: what rules out a pass whatever the numbers say.
        may_gain: whether a gain can be real, because the variant has another model.
        looks: taken while the variant was asked. None if it is judged once, at its end.
    """

    variant: str
    against: str
    table: pd.DataFrame
    control: str | None = None
    judged: bool = True
    obstacle: str | None = None
    may_gain: bool = False
    looks: TakenLooks | None = None

    def without_families(self, families: Collection[str]) -> VariantPair:
        """Returns the same pair without the samples of these families."""
        if not families:
            return self
        return replace(self, table=self.table[~self.table["family"].isin(families)])


@dataclass(frozen=True, slots=True)
class TakenLooks:
    """Holds the looks at a variant.

    Attributes:
        taken: in order.
        first_error_share: what the first look of the plan is tested at.
        obstacle: what rules out a pass at a look that was taken. Being interrupted later does not.
    """

    taken: tuple[Look, ...]
    first_error_share: float
    obstacle: str | None


def looks_at(run: RunData, variant: VariantRun) -> TakenLooks | None:
    """Returns the looks at a candidate. None if it is judged once, at its end."""
    planned = run.manifest.planned_looks
    if variant.role != "candidate" or not (variant.looks or (planned and variant.status != "complete")):
        return None
    is_cut_short = variant.status == "running" or variant.reason == INTERRUPTED
    obstacle = None if is_cut_short else incomplete_reason(variant)
    first = planned[0] if planned else variant.looks[0]
    return TakenLooks(tuple(variant.looks), first.error_share, obstacle or incomplete_reason(run.baseline))


def pairs_with_baseline(run: RunData) -> list[VariantPair]:
    """Pairs every variant of `run` with its baseline."""
    baseline, *others = run.baseline_first
    found = []
    for variant in others:
        control = run.variant("control", variant.name)
        found.append(
            VariantPair(
                variant.name, baseline.name, pair_variant(run, variant), control.name if control else None,
                judged=variant.role == "candidate", obstacle=incomplete_reason(variant) or incomplete_reason(baseline),
                may_gain=run.has_own_model(variant), looks=looks_at(run, variant),
            )
        )  # fmt: skip
    return found


def pair_variant(run: RunData, variant: VariantRun) -> pd.DataFrame:
    """Pairs the baseline, `variant`, and if they exist its control and the A/A run, over what `variant` was asked."""
    sides: dict[Side, pd.DataFrame] = {
        "baseline": run.records[run.manifest.baseline],
        "candidate": run.records[variant.name],
    }
    control, aa = run.variant("control", variant.name), run.aa
    if control:
        sides["control"] = run.records[control.name]
    if aa:
        sides["aa"] = run.records[aa.name]
    return pair(run.samples.loc[run.asked(variant)], sides)
