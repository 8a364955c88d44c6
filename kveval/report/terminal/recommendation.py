"""The recommendation as a command shows it: flags to serve with, what they are worth, and the way back."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kveval import __version__
from kveval.errors import InfrastructureError, KvevalError
from kveval.judge.recommend.recommend import Candidate, Recommendation, recommend
from kveval.judge.recommend.serve_command import ServeCommand
from kveval.report.files.gate import STYLES, policy_given
from kveval.report.rows import comparison_row, difference_label
from kveval.report.sections.answer.section import settle
from kveval.report.terminal.summary import describe_variant, storage_label
from kveval.report.text import visible

RECOMMENDATION_VERSION = 1
_BOUND = {"quality": "the longest shown to hold", "cache": "what the cache has room for"}


@dataclass(frozen=True, slots=True)
class Advice:
    document: dict[str, Any]
    table: RenderableType


def advise(run: Path, *, config: str | None, overrides: Mapping[str, Any], sequences: int | None) -> Advice:
    """Judges `run` and recommends; writes nothing.

    Args:
        config: a sweep configuration whose policy replaces the run's.
        overrides: keys of the policy, over either.
        sequences: see `kveval.judge.recommend.recommend.recommend`.

    Raises:
        KvevalError: nothing could be judged; see `kveval.judge.gate.gate`.
        InfrastructureError: kveval itself failed, which says nothing about the run.
    """
    try:
        made = document(recommend(run, overrides=policy_given(config, overrides), sequences=sequences))
    except KvevalError:
        raise
    except Exception as error:
        # Python's own exit code for a crash is the one of "every candidate loses".
        traceback.print_exc()
        raise InfrastructureError(f"{run}: kveval itself failed: {type(error).__name__}: {error}") from error
    return Advice(made, render(made))


def document(made: Recommendation) -> dict[str, Any]:
    """``kveval recommend --json``; see reports/README.md."""
    run, chosen = made.gate.run, made.chosen
    manifest = run.manifest
    return {
        "version": RECOMMENDATION_VERSION,
        "kveval_version": __version__,
        "exit_code": made.exit_code,
        "recommended": chosen.variant.name if chosen else None,
        "reason": made.reason,
        "run": {
            "path": str(run.path),
            "run_id": manifest.run_id,
            "created": manifest.created,
            "status": manifest.status,
            "kveval_version": manifest.kveval_version,
        },
        "baseline": manifest.baseline,
        "policy": made.gate.policy.model_dump(),
        "serve": _serving(made.serve) if made.serve else None,
        "rollback": _serving(made.rollback) if made.rollback else None,
        "memory": asdict(chosen.memory) if chosen else None,
        "context_limits": [asdict(limit) for limit in made.limits],
        "warnings": list(made.warnings),
        "candidates": [_candidate(one, one is chosen) for one in made.candidates],
    }


def _serving(serving: ServeCommand) -> dict[str, Any]:
    return {
        "environment": dict(serving.environment),
        "command": serving.command,
        "flags": serving.flags,
        "shell": serving.shell(),
    }


def _candidate(candidate: Candidate, recommended: bool) -> dict[str, Any]:
    rows = candidate.check.comparisons
    overall = next(row for row in rows if row.scope.level == "overall")
    row = comparison_row(overall)
    return {
        "variant": candidate.variant.name,
        "recommended": recommended,
        "verdict": candidate.state,
        "reason": candidate.check.reason,
        "obstacle": candidate.obstacle,
        "native_equivalent": candidate.native,
        "held_tokens": candidate.held_tokens,
        "settle": settle([row for level in ("length", "overall") for row in rows if row.scope.level == level]),
        "more_samples": candidate.more_samples,
        "freed_share": candidate.memory.freed_share,
        **{key: row[key] for key in ("score", "baseline_score", "delta", "low", "high", "n", "haystacks")},
        **{key: value for key, value in describe_variant(candidate.variant).items() if key in _DESCRIBED},
    }


_DESCRIBED = {
    "status", "storage", "emulation", "effective_cache_dtype", "declared", "kv_capacity_tokens", "kv_capacity_ratio",
}  # fmt: skip


def render(made: dict[str, Any]) -> RenderableType:
    """`document` for a terminal. Commands stand on lines of their own length: print without cropping."""
    parts: list[RenderableType] = []
    chosen = next((one for one in made["candidates"] if one["recommended"]), None)
    if chosen:
        parts.append(
            Text.assemble(
                "serve with ",
                (visible(chosen["variant"]), "bold green"),
                (f"  {visible(storage_label(chosen))}", "dim"),
            )
        )
        parts += [_indented(line) for line in _worth(made, chosen)]
        parts += [_indented(f"warning: {warning}", style="yellow") for warning in made["warnings"]]
        parts += [Text(), _command(made["serve"]), Text(), Text(f"to go back to {visible(made['baseline'])}:")]
    else:
        parts.append(Text.assemble("stay with ", (visible(made["baseline"]), "bold"), f": {visible(made['reason'])}"))
    parts += [Text(), _command(made["rollback"])]
    others = [one for one in made["candidates"] if not one["recommended"]]
    if others:
        parts += [Text("\nnot recommended" if chosen else "\ncandidates", style="bold")]
    for one in others:
        parts.append(
            Text.assemble(
                (f"{one['verdict']:<15}", STYLES[one["verdict"]]), (visible(one["variant"]), "bold"),
                (f"  {visible(storage_label(one))}", "dim"),
            )
        )  # fmt: skip
        parts += [_indented(line, left=15) for line in _why_not(made, one)]
    end = f"recommend: {visible(made['recommended'] or 'the baseline')}, exit code {made['exit_code']}"
    return Stack(*parts, Text(), Text(end, style="bold"))


def _worth(made: dict[str, Any], chosen: dict[str, Any]) -> Iterator[str]:
    yield f"{difference_label(chosen)} points; {chosen['reason']}"
    yield from _memory(made["memory"])
    for limit in made["context_limits"]:
        who = "1 sequence" if limit["sequences"] == 1 else f"each of {limit['sequences']:,} sequences at once"
        yield f"context for {who}: {limit['context_tokens']:,} tokens ({_BOUND[limit['bound_by']]})"


def _memory(memory: dict[str, Any]) -> Iterator[str]:
    ratio, freed = memory["capacity_ratio"], memory["freed_gib"]
    share = f", {memory['freed_share']:.0%} less for the same tokens" if memory["freed_share"] is not None else ""
    yield f"memory: room for {ratio:.2f} times the baseline's tokens{share}" if ratio else "memory: not known"
    if freed is not None:
        yield (
            f"memory freed: {freed:.2f} GiB at the baseline's {memory['baseline_tokens']:,} tokens, on each device "
            f"({memory['bytes_per_token']:,.0f} bytes a token against {memory['baseline_bytes_per_token']:,.0f})"
        )


def _why_not(made: dict[str, Any], one: dict[str, Any]) -> Iterator[str]:
    yield one["reason"]
    if one["obstacle"] and one["verdict"] in ("pass", "undecided"):
        yield one["obstacle"]
    elif one["verdict"] == "pass" and made["recommended"]:
        yield f"{made['recommended']} frees more, or as much and scores higher"
    if one["verdict"] == "regression" and one["held_tokens"]:
        yield f"holds up to {one['held_tokens']:,} tokens"
    if one["verdict"] == "undecided":
        yield from (f"to settle it {entry}" for entry in one["settle"] if entry.partition(": ")[2] not in one["reason"])


def _command(serving: dict[str, Any] | None) -> Text:
    if serving is None:
        return Text("as its server is started now: kveval attached to it and does not know its flags")
    return Text(visible(serving["shell"]), no_wrap=True, overflow="ignore")


def _indented(text: str, *, left: int = 4, style: str = "") -> Padding:
    return Padding(Text(visible(text), style=style), (0, 0, 0, left))
