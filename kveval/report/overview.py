"""What a reader must know first: what was measured, one answer for each candidate, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kveval.errors import UsageError
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import Headline, headlines, held_to, listed
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.verdict import Word
from kveval.judge.gate.gate import checked
from kveval.judge.recommend.recommend import Recommendation, recommended
from kveval.judge.run_data import RunData
from kveval.report.labels import length_label, plain_reason, word_of

_MOST_TASKS = 3
_KINDS_OF_DEVICE = {"cpu": "CPU", "cuda": "GPU"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on one candidate, for a reader who stops here.

    Attributes:
        verdict: a few words, such as "Do not ship fp8".
        details: the rest of the sentence: "it loses 14.0 points at 4K".
    """

    variant: str
    word: Word
    verdict: str
    details: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The first screen of a run.

    Attributes:
        measured: model, engine, device, tasks, lengths, questions.
        next_command: what to type next, and `why`. None if nothing is left to do.
        recommendation: of the gate. None if there is nothing to recommend from.
    """

    measured: tuple[str, ...]
    answers: tuple[Answer, ...]
    why: str
    next_command: str | None
    recommendation: Recommendation | None


def overview(run: RunData, judgement: Judgement) -> Overview:
    """Returns the first screen of a run, finished or not."""
    found = headlines(judgement)
    try:
        made = recommended(checked(run, judgement)) if found else None
    except UsageError:
        made = None
    why, command = _next(run, found, made)
    return Overview(tuple(measured(run)), tuple(_answer(run, judgement, one) for one in found), why, command, made)


def measured(run: RunData) -> Iterator[str]:
    """Yields what was measured, a few words each: 'SmolLM2-135M', 'vLLM 0.32.0', 'CPU', 'niah_multikey', ..."""
    manifest, facts = run.manifest, run.baseline.facts
    model = facts.served_model or manifest.config.get("model")
    if isinstance(model, str):
        yield Path(model).name
    engine = next((name for name in manifest.versions if name.startswith("vllm")), None)
    if engine is not None:
        yield f"vLLM {manifest.versions[engine]}"
    elif facts.engine_version:
        yield f"engine {facts.engine_version}"
    if facts.device:
        yield _KINDS_OF_DEVICE.get(facts.device, facts.device)
    tasks = list(dict.fromkeys(run.samples["task"]))
    yield ", ".join(tasks) if len(tasks) <= _MOST_TASKS else f"{len(tasks)} tasks"
    lengths = sorted({int(length) for length in run.samples["context_length"]})
    if lengths:
        yield (
            length_label(lengths[0])
            if len(lengths) == 1
            else f"{length_label(lengths[0])} to {length_label(lengths[-1])}"
        )
    yield f"{len(run.samples):,} questions"


def _answer(run: RunData, judgement: Judgement, headline: Headline) -> Answer:
    name, word = headline.variant, headline.word
    lengths = judgement.of(name, "length")
    (overall,) = judgement.of(name, "overall")
    emulated = "; emulated, so no memory is saved here" if run.manifest.variants[name].facts.is_emulated else ""
    limit = held_to(lengths)
    if judgement.void_of(overall):
        return Answer(name, word, f"{name} is not judged", f"{headline.reason}.")
    if word == "fail":
        up_to = f". It passes up to {length_label(limit)}" if limit else ""
        return Answer(name, word, f"Do not ship {name}", f"it {_worst(judgement, name)}{up_to}{emulated}.")
    if word == "pass":
        up_to = f" up to {length_label(limit)}" if limit else ""
        return Answer(name, word, f"{name} passes{up_to}", f"{_change(overall)}{emulated}.")
    if headline.reason_code in ("loss_not_excluded", "loss_not_excluded_where_it_can_show"):
        return Answer(name, word, f"Not enough data for {name}", f"{_change(overall)}{emulated}.")
    decides = next((row for row in (overall, *lengths) if word_of(row) == "undecided"), overall)
    return Answer(name, word, f"{name} is undecided", f"{plain_reason(decides) or headline.reason}{emulated}.")


def _worst(judgement: Judgement, name: str) -> str:
    rows = [row for row in judgement.of(name, "length", "overall", "family", "cell") if word_of(row) == "fail"]
    # What is advisory fails nothing.
    rows = [row for row in rows if not row.is_advisory]
    worst = min(rows, key=lambda row: row.shown.difference.delta or 0.0)
    place = "over all lengths" if worst.scope.level == "overall" else f"at {_place(worst)}"
    return f"loses {100 * abs(worst.shown.difference.delta or 0.0):.1f} points {place}"


def _place(row: Comparison) -> str:
    return length_label(row.scope.context_length) if row.scope.level == "length" else str(row.scope)


def _change(overall: Comparison) -> str:
    difference = overall.shown.difference
    if difference.delta is None or difference.low is None or difference.high is None:
        return "no interval can be told"
    size = f"{abs(100 * difference.delta):.1f} points"
    way = "the same score" if size == "0.0 points" else f"{size} {'lower' if difference.delta < 0 else 'higher'}"
    low, high = 100 * difference.low, 100 * difference.high
    return f"{way}; the true change probably lies between {low:+.1f} and {high:+.1f} points"


def _next(run: RunData, found: list[Headline], made: Recommendation | None) -> tuple[str, str | None]:
    undecided = [one for one in found if one.word == "undecided" and one.settling is not None]
    path = shlex.quote(str(run.path))
    if run.manifest.status not in ("complete", "running"):
        return "To go on where it stopped", f"kveval sweep --resume --out {path}"
    if made is not None and made.chosen is not None:
        return "To serve with it", f"kveval recommend {path}"
    if undecided:
        most = max((one.settling for one in undecided if one.settling), key=lambda one: one.samples_per_cell)
        return f"To decide {listed([one.variant for one in undecided])}", most.command
    if any(one.word == "fail" for one in found):
        return "To see what was lost", f"kveval report {path}"
    if found and all(one.word == "pass" for one in found):
        return "To keep this run as the reference of later nights", f"kveval bless {path} --out blessed.json"
    return "", None
