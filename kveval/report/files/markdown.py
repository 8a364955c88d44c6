"""``summary.md`` for the page of a CI job: the worst first, hostile text disarmed, and never too long for the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kveval.errors import KvevalError
from kveval.judge.comparison.comparison import Comparison, at_levels
from kveval.judge.comparison.scope import Scope
from kveval.judge.gate.check import Check
from kveval.judge.gate.gate import Gate
from kveval.report.documents.verdict import error_word, noise_floor
from kveval.report.endpoints import (
    attribution_labels,
    beside_labels,
    contradiction,
    has_expected,
    name_of,
    parts_labels,
    shown_label,
)
from kveval.report.files.flips import FlipExcerpt, flip_excerpts
from kveval.report.labels import (
    answered_label,
    difference_label,
    emulated_suffix,
    row_word,
    score_label,
    storage_label,
)
from kveval.report.text import shortened, visible

MOST_BYTES = 58_000
_MOST_CELLS = 40
_LONGEST_SENTENCE = 1_200
_SPECIAL = re.compile(r"[&<>\\`*_\[\]#|~$]")
_LINKED = re.compile(r"(?<=[\w])(?=://|\.)|(?=@)", re.ASCII)
_MARKS = {
    "pass": "✅",
    "regression": "❌",
    "infrastructure": "⚠️",
    "undecided": "❔",
    "incomparable": "⛔",
    "usage": "⛔",
}
_WORD_ORDER = {"fail": 0, "undecided": 1, "pass": 2}


def markdown(gate: Gate) -> str:
    """Returns the gate's decision as Markdown of less than 60 KB."""
    return _fit(_lines(gate))


def markdown_of_error(error: KvevalError) -> str:
    """Returns the page of a gate that could not judge."""
    word = error_word(error)
    return _fit([_title(word), "", plain(str(error)), "", f"Exit code {error.exit_code}. Nothing was judged."])


def _fit(lines: Iterable[str]) -> str:
    kept: list[str] = []
    used = 0
    for line in lines:
        used += len(line.encode()) + 1
        if used > MOST_BYTES:
            kept.append("\n_The rest is left out here: verdict.json has all of it._")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def plain(text: str) -> str:
    """Returns Markdown that shows exactly `text`: one line, no markup, no HTML, no links, no mentions."""
    line = " ".join(visible(text).split())
    shown, left_out = shortened(line, _LONGEST_SENTENCE)
    # An empty comment breaks up links and mentions; character references disarm the rest.
    parts = _LINKED.split(shown) if "://" in shown or "www." in shown.lower() or "@" in shown else [shown]
    disarmed = "<!-- -->".join(_SPECIAL.sub(lambda match: f"&#{ord(match[0])};", part) for part in parts)
    return disarmed + (f" … {left_out} more characters" if left_out else "")


def code(text: str | None) -> str:
    """Returns model text as a code span, in which nothing is markup."""
    line = " ".join(visible(text or "").split())
    if not line:
        return "_nothing_"
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"


def _title(word: str) -> str:
    return f"## {_MARKS[word]} KV cache gate: {word}"


def _lines(gate: Gate) -> Iterator[str]:
    yield _title(gate.state)
    yield ""
    yield _head(gate)
    yield ""
    yield from _checks(gate)
    yield from (f"- {note.level}: {plain(note.message)}" for note in gate.notes)
    yield ""
    yield from _cells(gate)
    yield from _flips(gate)
    yield _noise(gate)


def _head(gate: Gate) -> str:
    manifest, policy, blessed = gate.run.manifest, gate.policy, gate.blessed
    allowed = gate.state == "undecided" and gate.exit_code == 0
    return (
        f"Exit code {gate.exit_code}"
        + (" (the policy allows undecided). " if allowed else ". ")
        + f"Run {code(manifest.run_id)} of {plain(manifest.created)}, {len(gate.run.samples):,} questions about "
        f"{gate.run.samples['haystack_id'].nunique():,} contexts, baseline {code(manifest.baseline)}"
        + (f", compared with blessed run {code(blessed.run.run_id)} of {plain(blessed.run.created)}" if blessed else "")
        + f". Margin {100 * policy.margin:g} points"
        + "".join(f", {plain(family)} {100 * margin:g}" for family, margin in sorted(policy.margins.items()))
        + f"; confidence {policy.confidence:.0%}."
    )


def _checks(gate: Gate) -> Iterator[str]:
    yield "| | check | variant | against | overall | reason |"
    yield "|---|---|---|---|---|---|"
    for check in _worst_first(gate.checks):
        overall = check.overall
        yield (
            f"| {_MARKS[check.state]} {check.state} | {check.kind} | {_variant(gate, check)} "
            f"| {plain(check.against or '')} | {_overall(overall)} "
            f"| {plain(check.reason)}{_code_of(check.reason_code)} |"
        )
    yield ""
    for check in gate.checks:
        overall = check.overall
        if overall and (said := contradiction(overall)):
            yield f"- warning: {plain(check.variant)}: {plain(said)}"
        for label in beside_labels(overall) if overall else []:
            yield f"- {plain(check.variant)}, beside it: {plain(label)}"
        if overall and overall.attribution and (split := attribution_labels(overall)):
            cause = {None: "undecided which part lost", "both": "both lost"}.get(
                overall.attribution.blames(), f"the loss comes from the {overall.attribution.blames()}"
            )
            yield f"- {plain(check.variant)}: {plain(split[0])}: **{cause}**"
            yield from (f"- {plain(check.variant)}: {plain(label)}" for label in split[1:])
        yield from (f"- {plain(check.variant)}: {plain(label)}" for label in (parts_labels(overall) if overall else ()))
    yield ""


def _code_of(reason_code: str | None) -> str:
    return f" (`{reason_code}`)" if reason_code else ""


def _overall(row: Comparison | None) -> str:
    if row is None:
        return ""
    kind = f" ({shown_label(row)})" if row.expected and row.difference.n else ""
    return difference_label(row.difference) + kind


def _variant(gate: Gate, check: Check) -> str:
    found = gate.run.manifest.variants.get(check.variant)
    label = storage_label(found.facts) if found else ""
    saving = ", **no memory saved**" if found and found.facts.is_emulated else ""
    return f"**{plain(check.variant)}**" + (f" ({plain(label)}{saving})" if label else "")


def _cells(gate: Gate) -> Iterator[str]:
    cells = [
        (check, row, row.verdict)
        for check in gate.checks
        for row in at_levels(check.comparisons, "cell")
        if row.verdict is not None
    ]
    cells.sort(key=lambda cell: (_WORD_ORDER[cell[2].word], cell[1].difference.delta or 0.0))
    if not cells:
        return
    yield "### Worst cells first"
    yield ""
    named = has_expected([row for _, row, _ in cells])
    yield (
        "| verdict | variant | check | cell | questions | before | after | points "
        + ("| score | beside it " if named else "")
        + "| lost/gained | adjusted p (Holm) |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|" + ("---|---|" if named else "")
    for check, row, verdict in cells[:_MOST_CELLS]:
        p = f"{verdict.p_holm:.2g}" if verdict.p_holm is not None else ""
        yield (
            f"| {row_word(row)}{_code_of(verdict.reason_code)} "
            f"| {plain(check.variant)}{emulated_suffix(gate.run, check.variant)} | {check.kind} "
            f"| {plain(str(row.scope))} | {answered_label(row)} | {score_label(row.baseline_score.mean)} "
            f"| {score_label(row.candidate_score.mean)} | {difference_label(row.difference)} "
            + (f"| {name_of(row, row.shown)} | {_beside(row)} " if named else "")
            + f"| {row.flips.lost}/{row.flips.gained} | {p} |"
        )
    if len(cells) > _MOST_CELLS:
        yield ""
        yield f"{len(cells) - _MOST_CELLS} more cells are in verdict.json."
    yield ""


def _beside(row: Comparison) -> str:
    return "; ".join(f"{name_of(row, one)} {difference_label(one.difference)}" for one in row.beside)


def _flips(gate: Gate) -> Iterator[str]:
    for check in _worst_first(gate.checks):
        flips, overall = list(flip_excerpts(gate.run, check)), check.overall
        if not flips or overall is None:
            continue
        variant = f"{plain(check.variant)}{emulated_suffix(gate.run, check.variant)}"
        lost, gained = overall.flips.lost, overall.flips.gained
        yield f"### Flips of {variant} against {plain(check.against or '')}: {lost} lost, {gained} gained"
        yield ""
        yield from map(_flip, flips)
        if lost + gained > len(flips):
            yield f"- {lost + gained - len(flips)} more are in the report"
        yield ""


def _flip(flip: FlipExcerpt) -> str:
    where = plain(str(Scope("cell", task=flip.task, context_length=flip.context_length)))
    depth = f", depth {flip.depth_percent:.0f}%" if flip.depth_percent is not None else ""
    noise = "; **the A/A run flipped too**" if flip.noise_too else ""
    expected = ", ".join(code(answer) for answer in flip.expected) or "that the text does not say"
    before = f"before {code(flip.before)}; " if flip.before is not None else ""
    return (
        f"- {'▼' if flip.direction == 'lost' else '▲'} {where}{depth} ({code(flip.sample_id)}), "
        f"{flip.before_outcome} → {flip.after_outcome}{noise}. {plain(flip.question or '')} "
        f"Expected {expected}; {before}after {code(flip.after)}"
    )


def _noise(gate: Gate) -> str:
    noise = noise_floor(gate)
    if noise is None or noise.identical is None:
        return "The baseline was not asked a second time: the noise floor is unknown."
    return (
        f"Noise floor: the baseline's second run lost {noise.flips.lost} and gained {noise.flips.gained} of "
        f"{noise.difference.n:,} questions; {noise.identical:.1%} of its outputs are identical."
    )


def _worst_first(checks: Sequence[Check]) -> list[Check]:
    order = ("regression", "infrastructure", "undecided", "pass")
    return sorted(checks, key=lambda check: order.index(check.state))
