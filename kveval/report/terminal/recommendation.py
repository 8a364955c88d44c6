"""The recommendation in a terminal: the flags to serve with, what they are worth, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from kveval.judge.comparison.comparison import at_levels
from kveval.judge.recommend.capacity import Memory
from kveval.judge.recommend.recommend import Candidate, Recommendation
from kveval.judge.recommend.serve_command import ServeCommand
from kveval.report.endpoints import beside_labels, shown_label
from kveval.report.labels import difference_label, storage_label
from kveval.report.terminal.layout import STYLES, indented
from kveval.report.text import visible

_BOUND = {"quality": "the longest proven safe", "cache": "what the cache holds"}


def recommendation_table(made: Recommendation) -> RenderableType:
    """Shows the recommendation. Print it without cropping: commands may be longer than a line."""
    baseline = visible(made.gate.run.manifest.baseline)
    parts = [*_serve(made, baseline), Text(), _command(made.rollback)]
    others = [one for one in made.candidates if one is not made.chosen]
    if others:
        parts.append(Text("\nnot recommended" if made.chosen else "\ncandidates", style="bold"))
    for one in others:
        parts.append(
            Text.assemble((f"{one.state:<15}", STYLES[one.state]), (visible(one.variant.name), "bold"), _storage(one))
        )
        parts += [indented(line, left=15) for line in _why_not(made, one)]
    recommended = visible(made.chosen.variant.name) if made.chosen else "the baseline"
    return Stack(*parts, Text(), Text(f"recommend: {recommended}, exit code {made.exit_code}", style="bold"))


def _serve(made: Recommendation, baseline: str) -> Iterator[RenderableType]:
    if made.chosen is None:
        yield Text.assemble("stay with ", (baseline, "bold"), f": {visible(made.reason)}")
        return
    yield Text.assemble("serve with ", (visible(made.chosen.variant.name), "bold green"), _storage(made.chosen))
    yield from (indented(line) for line in _worth(made, made.chosen))
    yield from (indented(f"warning: {warning}", style="yellow") for warning in made.warnings)
    yield from (Text(), _command(made.serve), Text(), Text(f"to go back to {baseline}:"))


def _storage(candidate: Candidate) -> tuple[str, str]:
    return f"  {visible(storage_label(candidate.variant.facts))}", "dim"


def _worth(made: Recommendation, chosen: Candidate) -> Iterator[str]:
    (overall,) = at_levels(chosen.check.comparisons, "overall")
    kind = f"{shown_label(overall)} " if overall.expected else ""
    yield f"{kind}{difference_label(overall.difference)} points; {chosen.check.reason}"
    yield from (f"beside it: {label}" for label in beside_labels(overall))
    yield from _memory(chosen.memory)
    for limit in made.limits:
        who = "1 sequence" if limit.sequences == 1 else f"each of {limit.sequences:,} sequences at once"
        yield f"context for {who}: {limit.context_tokens:,} tokens ({_BOUND[limit.bound_by]})"


def _memory(memory: Memory) -> Iterator[str]:
    share = f", {memory.freed_share:.0%} less for the same tokens" if memory.freed_share is not None else ""
    ratio = memory.capacity_ratio
    yield f"memory: fits {ratio:.2f}x the baseline's tokens{share}" if ratio else "memory: not known"
    if memory.freed_gib is not None:
        yield (
            f"memory freed: {memory.freed_gib:.2f} GiB at the baseline's {memory.baseline_tokens:,} tokens, on each "
            f"device ({memory.bytes_per_token:,.0f} bytes per token against {memory.baseline_bytes_per_token:,.0f})"
        )


def _why_not(made: Recommendation, one: Candidate) -> Iterator[str]:
    yield one.check.reason
    if one.obstacle and one.state in ("pass", "undecided"):
        yield one.obstacle
    elif one.state == "pass" and made.chosen:
        yield f"{made.chosen.variant.name} frees more, or as much and scores higher"
    if one.state == "regression" and one.held_tokens:
        yield f"proven safe up to {one.held_tokens:,} tokens"


def _command(serving: ServeCommand | None) -> Text:
    if serving is None:
        return Text("start its server as now: kveval attached to it and does not know its flags")
    return Text(visible(serving.shell()), no_wrap=True, overflow="ignore")
