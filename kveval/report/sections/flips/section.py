"""The flipped samples as a reviewer reads them, and which of many are shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kveval.judge.comparison.pairing import answered_by, pair_variant
from kveval.judge.evidence.flipped import FlippedSample, flipped_samples
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.report.sections.flips.divergence import Divergence, TokenTexts, divergence
from kveval.report.sections.flips.forced_answer import ForcedAnswer, forced_answer
from kveval.report.sections.flips.word_diff import Shown, side_by_side
from kveval.report.text import shortened, visible
from kveval.run.manifest import VariantRun

MOST_SHOWN = 800
_CHARACTERS_OF_ALL = 2_400_000
_LEAST_CHARACTERS, _MOST_CHARACTERS = 400, 4_000
_BRIEF_CHARACTERS = 60
_IN_COMMON = 3
_ROLES = ("candidate", "control", "aa")


@dataclass(frozen=True, slots=True)
class FlipView:
    """One flip.

    Attributes:
        anchor: the link to this sample of this variant. `sample_anchor` links to the first flip of the sample.
        noise: what the A/A run did on this sample: flipped, same, or unknown.
        role: of the variant, such as candidate or control.
        expected, baseline_said, candidate_said: the beginnings of the right answers and of both outputs, in a line.
    """

    flip: FlippedSample
    anchor: str
    sample_anchor: str | None
    noise: str
    role: str
    expected: str
    baseline_said: str
    candidate_said: str
    baseline: Shown
    candidate: Shown
    divergence: Divergence | None
    forced: ForcedAnswer | None


@dataclass(frozen=True, slots=True)
class FlipCount:
    """Counts of one variant: its flips, those the report shows, and the samples compared."""

    variant: VariantRun
    flips: int
    shown: int
    compared: int


@dataclass(frozen=True, slots=True)
class FlipsSection:
    """The flips that are shown, counts of all, and the values that filters offer."""

    counts: tuple[FlipCount, ...]
    shown: tuple[FlipView, ...]
    choices: dict[str, list[str]]
    causes: list[str]

    @property
    def has_controls(self) -> bool:
        """Whether flips of others than candidates are shown, which the page hides until they are asked for."""
        return {view.role for view in self.shown} > {"candidate"}


def flips_section(run: RunData) -> FlipsSection:
    """Returns the flips of every variant against the baseline, candidates first. Shows a fair share of each if many."""
    variants = sorted(
        (variant for variant in run.manifest.variants.values() if variant.role in _ROLES),
        key=lambda variant: _ROLES.index(variant.role),
    )
    flipped = {variant.name: list(flipped_samples(run, variant)) for variant in variants}
    shares = _fair_shares([len(flips) for flips in flipped.values()], MOST_SHOWN)
    chosen = {name: spread(flips, most) for (name, flips), most in zip(flipped.items(), shares, strict=True)}
    total = sum(len(flips) for flips in chosen.values())
    limit = min(_MOST_CHARACTERS, max(_LEAST_CHARACTERS, _CHARACTERS_OF_ALL // max(1, 2 * total)))
    texts = TokenTexts(run.manifest)
    seen: set[str] = set()
    shown = []
    for flips in chosen.values():
        for flip in flips:
            shown.append(_view(run, flip, texts, limit, is_first=flip.sample_id not in seen))
            seen.add(flip.sample_id)
    counts = tuple(
        FlipCount(
            variant, len(flipped[variant.name]), len(chosen[variant.name]),
            len(answered_by(pair_variant(run, variant), "baseline", "candidate")),
        )
        for variant in variants
    )  # fmt: skip
    return FlipsSection(counts, tuple(shown), _choices([view.flip for view in shown]), common_causes(shown))


def spread(flips: Sequence[FlippedSample], most: int) -> list[FlippedSample]:
    """Returns at most `most` flips, in their order: losses before gains, and as evenly from every cell as possible."""
    cells: dict[tuple[str, str, int], int] = defaultdict(int)
    ranks = []
    for index, flip in enumerate(flips):
        cell = (flip.direction, flip.task, flip.context_length)
        ranks.append((flip.direction == "gained", cells[cell], index))
        cells[cell] += 1
    return [flips[index] for index in sorted(index for *_, index in sorted(ranks)[:most])]


def _fair_shares(wanted: Sequence[int], most: int) -> list[int]:
    """Returns `wanted`, cut so that the sum is at most `most`. What one does not need, the others get."""
    shares = [0] * len(wanted)
    for left, index in zip(range(len(wanted), 0, -1), sorted(range(len(wanted)), key=lambda i: wanted[i]), strict=True):
        shares[index] = min(wanted[index], most // left)
        most -= shares[index]
    return shares


def _view(run: RunData, flip: FlippedSample, texts: TokenTexts, limit: int, *, is_first: bool) -> FlipView:
    baseline, candidate = side_by_side(flip.baseline_output, flip.candidate_output, limit)
    return FlipView(
        flip=flip,
        anchor=f"s-{flip.sample_id}-{flip.variant}",
        sample_anchor=f"s-{flip.sample_id}" if is_first else None,
        noise={None: "unknown", True: "flipped", False: "same"}[flip.aa_flipped],
        role=run.manifest.variants[flip.variant].role,
        expected="nothing" if flip.absent else _brief(" or ".join(flip.expected)),
        baseline_said=_brief(flip.baseline_output),
        candidate_said=_brief(flip.candidate_output),
        baseline=baseline,
        candidate=candidate,
        divergence=divergence(
            _tokens(run, run.manifest.baseline, flip.sample_id), _tokens(run, flip.variant, flip.sample_id), texts
        ),
        forced=forced_answer(
            _record(run, run.manifest.baseline, flip.sample_id), _record(run, flip.variant, flip.sample_id), texts
        ),
    )


def _brief(text: str) -> str:
    """Returns the beginning of a text in one line."""
    line = " ".join(visible(text).split())
    shown, left_out = shortened(line, _BRIEF_CHARACTERS)
    return f"{shown}…" if left_out else shown or "(empty)"


def common_causes(views: Sequence[FlipView]) -> list[str]:
    """Returns what several lost answers of candidates have in common: an outcome, an output, where they part."""
    lost = [view for view in views if view.role == "candidate" and view.flip.direction == "lost"]
    outcomes = Counter(view.flip.candidate_outcome for view in lost)
    outputs = Counter(view.candidate_said for view in lost)
    places = Counter(view.divergence.position for view in lost if view.divergence is not None)
    found = [f"{count} are {outcome}" for outcome, count in outcomes.most_common() if count >= _IN_COMMON]
    found += [f"{count} say “{said}”" for said, count in outputs.most_common(3) if count >= _IN_COMMON]
    found += [f"{count} part at token {place}" for place, count in places.most_common(2) if count >= _IN_COMMON]
    return found


def _tokens(run: RunData, variant: str, sample_id: str) -> tuple[list[int], object]:
    record = _record(run, variant, sample_id)
    return list(record["output_token_ids"]), record["logprobs"]


def _record(run: RunData, variant: str, sample_id: str) -> dict[str, Any]:
    return dict(run.records[variant].loc[sample_id])


def _choices(flips: Sequence[FlippedSample]) -> dict[str, list[str]]:
    """Returns what the flips can be filtered by, with the values they have."""
    return {
        "variant": list(dict.fromkeys(flip.variant for flip in flips)),
        "task": sorted({flip.task for flip in flips}),
        "length": [str(length) for length in sorted({flip.context_length for flip in flips})],
        "direction": [way for way in ("lost", "gained") if any(flip.direction == way for flip in flips)],
        "outcome": sorted({flip.candidate_outcome for flip in flips}),
    }


SECTION = Section("Which: the flipped samples", 30, lambda run, _: flips_section(run), link="Which: flips")
