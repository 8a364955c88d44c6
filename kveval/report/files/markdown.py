"""``summary.md`` for the step page of a CI job: the worst first, hostile text disarmed, and never too long for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kveval.report.files.junit import row_name
from kveval.report.rows import attribution_label, difference_label
from kveval.report.terminal.summary import storage_label
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


def markdown(document: dict[str, Any]) -> str:
    """What `kveval.report.files.verdict` returns, as Markdown of less than 60 KB."""
    lines: list[str] = []
    used = 0
    for line in _lines(document):
        size = len(line.encode()) + 1
        if used + size > MOST_BYTES:
            lines.append("\n_The rest is left out here: verdict.json has all of it._")
            break
        lines.append(line)
        used += size
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Any text as Markdown that shows exactly it: one line, no markup, no HTML, no links, no mentions."""
    line = " ".join(visible(text).split())
    shown, left_out = shortened(line, _LONGEST_SENTENCE)
    # An empty comment parts what would become a link or a mention; character references disarm the rest.
    parts = _LINKED.split(shown) if "://" in shown or "www." in shown.lower() or "@" in shown else [shown]
    disarmed = "<!-- -->".join(_SPECIAL.sub(lambda match: f"&#{ord(match[0])};", part) for part in parts)
    return disarmed + (f" … {left_out} more characters" if left_out else "")


def code(text: str | None) -> str:
    """Model text as a code span: nothing in it is markup."""
    line = " ".join(visible(text or "").split())
    if not line:
        return "_nothing_"
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    word = document["verdict"]
    yield f"## {_MARKS[word]} KV cache gate: {word}"
    yield ""
    if document["reason"] is not None:
        yield plain(document["reason"])
        yield ""
        yield f"Exit code {document['exit_code']}. Nothing was judged."
        return
    yield from _head(document)
    yield from _checks(document)
    yield from _notes(document)
    yield from _cells(document)
    yield from _flips(document)
    yield from _noise(document)


def _head(document: dict[str, Any]) -> Iterator[str]:
    run, policy, blessed = document["run"], document["policy"], document["blessed"]
    allowed = document["verdict"] == "undecided" and document["exit_code"] == 0
    yield (
        f"Exit code {document['exit_code']}"
        + (" (what stays open is let through by the policy). " if allowed else ". ")
        + f"Run {code(run['run_id'])} of {plain(run['created'])}, {run['samples']:,} samples in "
        f"{run['haystacks']:,} haystacks, baseline {code(run['baseline'])}"
        + (f", held against blessed run {code(blessed['run_id'])} of {plain(blessed['created'])}" if blessed else "")
        + f". Margin {100 * policy['margin']:g} points"
        + "".join(f", {plain(family)} {100 * margin:g}" for family, margin in sorted(policy["margins"].items()))
        + f"; confidence {policy['confidence']:.0%}."
    )
    yield ""


def _checks(document: dict[str, Any]) -> Iterator[str]:
    yield "| | check | variant | against | overall | reason |"
    yield "|---|---|---|---|---|---|"
    for check in _worst_first(document["checks"]):
        overall = next((row for row in check["rows"] if row["level"] == "overall"), None)
        yield (
            f"| {_MARKS[check['verdict']]} {check['verdict']} | {check['kind']} | {_variant(document, check)} "
            f"| {plain(check['against'] or '')} | {difference_label(overall) if overall else ''} "
            f"| {plain(check['reason'])} |"
        )
    yield ""
    for check in document["checks"]:
        overall = next((row for row in check["rows"] if row["level"] == "overall"), None)
        if overall and overall["attribution"]:
            blamed = {None: "not settled which part lost", "both": "both lost"}.get(
                check["loss_comes_from"], f"the loss comes from the {check['loss_comes_from']}"
            )
            yield f"- {plain(check['variant'])}: {plain(attribution_label(overall['attribution']))}: **{blamed}**"
    yield ""


def _variant(document: dict[str, Any], check: dict[str, Any]) -> str:
    described = document["variants"].get(check["variant"])
    label = storage_label(described) if described else ""
    saving = ", **no memory saved**" if check["emulated"] else ""
    return f"**{plain(check['variant'])}**" + (f" ({plain(label)}{saving})" if label else "")


def _notes(document: dict[str, Any]) -> Iterator[str]:
    for note in document["notes"]:
        yield f"- {note['level']}: {plain(note['message'])}"
    yield ""


def _cells(document: dict[str, Any]) -> Iterator[str]:
    cells = [(check, row) for check in document["checks"] for row in check["rows"] if row["level"] == "cell"]
    cells.sort(key=lambda pair: (_WORD_ORDER[pair[1]["verdict"]], pair[1]["delta"] or 0.0))
    if not cells:
        return
    yield "### Worst cells first"
    yield ""
    yield "| verdict | variant | check | cell | n | before | after | delta (points) | flips -/+ | p (Holm) |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for check, row in cells[:_MOST_CELLS]:
        p = f"{row['p_holm']:.2g}" if row["p_holm"] is not None else ""
        emulated = " (emulated)" if check["emulated"] else ""
        unanswered = f" of {row['asked']}" if row["n"] < row["asked"] else ""
        yield (
            f"| {row['verdict']} | {plain(check['variant'])}{emulated} | {check['kind']} | {plain(row_name(row))} "
            f"| {row['n']}{unanswered} | {_score(row['baseline_score'])} | {_score(row['score'])} "
            f"| {difference_label(row)} | {row['lost']}/{row['gained']} | {p} |"
        )
    if len(cells) > _MOST_CELLS:
        yield ""
        yield f"{len(cells) - _MOST_CELLS} more cells are in verdict.json."
    yield ""


def _flips(document: dict[str, Any]) -> Iterator[str]:
    for check in _worst_first(document["checks"]):
        if not check["flips"]:
            continue
        overall = next(row for row in check["rows"] if row["level"] == "overall")
        total = overall["lost"] + overall["gained"]
        emulated = " (emulated)" if check["emulated"] else ""
        yield (
            f"### Flips of {plain(check['variant'])}{emulated} against {plain(check['against'])}: "
            f"{overall['lost']} lost, {overall['gained']} gained"
        )
        yield ""
        for flip in check["flips"]:
            depth = f", depth {flip['depth_percent']:.0f}%" if flip["depth_percent"] is not None else ""
            noise = "; **the A/A run flipped too**" if flip["noise_too"] else ""
            expected = ", ".join(code(answer) for answer in flip["expected"]) or "that the text does not say"
            before = f"before {code(flip['before'])}; " if flip["before"] is not None else ""
            yield (
                f"- {'▼' if flip['direction'] == 'lost' else '▲'} {plain(row_name({**flip, 'family': None}))}{depth} "
                f"({code(flip['sample_id'])}), {flip['before_outcome']} → {flip['after_outcome']}{noise}. "
                f"{plain(flip['question'] or '')} Expected {expected}; {before}after {code(flip['after'])}"
            )
        if total > len(check["flips"]):
            yield f"- and {total - len(check['flips'])} more: the report has them"
        yield ""


def _noise(document: dict[str, Any]) -> Iterator[str]:
    noise = document["noise"]
    if noise is None or noise["identical"] is None:
        yield "No second run of the baseline: the noise floor is unknown."
        return
    yield (
        f"Noise floor: the baseline asked twice lost {noise['lost']} and gained {noise['gained']} of "
        f"{noise['n']:,} samples, with {noise['identical']:.1%} identical outputs."
    )


def _worst_first(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = ("regression", "infrastructure", "undecided", "pass")
    return sorted(checks, key=lambda check: order.index(check["verdict"]))


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"
