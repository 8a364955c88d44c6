"""The variance that a prediction rests on: of earlier runs of the same model, or a careful default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kveval.config.judge import Policy
from kveval.errors import KvevalError
from kveval.judge.comparison.comparison import compare
from kveval.judge.comparison.endpoint import Endpoint, Kind
from kveval.judge.comparison.pairing import pairs_with_baseline
from kveval.judge.comparison.scope import Scope
from kveval.judge.run_data import load_run
from kveval.judge.statistics.planned import Spread
from kveval.run.directory import RunDirectory

_MOST_RUNS = 3
_FEWEST_CONTEXTS = 6
# 300 questions about 30 contexts, SmolLM2 135M at 2K with a native FP8 cache that truncates: 30 lost and 13 gained, and
# an expected score whose difference has a standard error of 0.0052. A cache that changes less has a smaller variance.
_GREEDY = Spread(variance=0.14, differing=0.15)
_EXPECTED = Spread(variance=0.0081, differing=None)
_MODEL = "model/config.json"


@dataclass(frozen=True, slots=True)
class KnownSpread:
    """A spread, and where it comes from in one sentence."""

    spread: Spread
    source: str


def default_spread(kind: Kind) -> KnownSpread:
    """Returns a spread that most caches stay below."""
    spread = _GREEDY if kind == "greedy" else _EXPECTED
    measured = "43 of 300 answers turned" if kind == "greedy" else "standard error 0.52 points with 300 questions"
    return KnownSpread(spread, f"a careful default: SmolLM2 135M with a native FP8 cache, {measured}")


def earlier_spreads(folder: Path, model_sha256: str | None, *, without: Path) -> dict[Kind, KnownSpread]:
    """Returns the spread of each kind of score in the newest runs of the same model in `folder`.

    Each is that of the candidate that moved most. A run that cannot be read is left out.

    Args:
        model_sha256: of the model's config.json.
        without: the run that is planned.
    """
    found: dict[Kind, KnownSpread] = {}
    if model_sha256 is None:
        return found
    for path in runs_of(folder, model_sha256, without):
        with contextlib.suppress(KvevalError):
            for kind, spread in _spreads(path).items():
                found.setdefault(kind, KnownSpread(spread, f"the candidate that moved most in {path}"))
    return found


def runs_of(folder: Path, model_sha256: str, without: Path) -> list[Path]:
    """Returns the newest complete runs of a model in `folder`, the newest first."""
    runs = []
    for manifest_path in folder.glob("*/manifest.json"):
        path = manifest_path.parent
        if path.resolve() == without.resolve():
            continue
        with contextlib.suppress(KvevalError):
            manifest = RunDirectory(path).read_manifest()
            if manifest.inputs.get(_MODEL) == model_sha256 and manifest.status == "complete":
                runs.append((manifest.created, path))
    return [path for _, path in sorted(runs, reverse=True)[:_MOST_RUNS]]


def _spreads(path: Path) -> dict[Kind, Spread]:
    largest: dict[Kind, Spread] = {}
    for one in _endpoints(path):
        difference = one.difference
        if difference.se is None or difference.square is None or difference.clusters < _FEWEST_CONTEXTS:
            continue
        is_greedy = one.kind == "greedy"
        # What never moved in one run can move in the next.
        floor = 1 / difference.n if is_greedy else 0.0
        variance = max(difference.n * difference.se**2, floor)
        spread = Spread(variance, max(difference.square, floor) if is_greedy else None)
        if variance > 0 and (one.kind not in largest or spread.variance > largest[one.kind].variance):
            largest[one.kind] = spread
    return largest


def _endpoints(path: Path) -> Iterator[Endpoint]:
    run, policy = load_run(path), Policy()
    for pair in pairs_with_baseline(run):
        if pair.judged:
            row = compare(
                pair.table, pair.variant, pair.against, Scope("overall"), policy=policy, confidence=policy.confidence
            )
            yield from _distinct([row.greedy, *row.expected])


def _distinct(endpoints: Iterable[Endpoint]) -> Iterator[Endpoint]:
    yield from {one.kind: one for one in endpoints}.values()
