"""Recommends the cache setting to serve with: the one that passes and frees the most memory, or the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.config.emulation import EmulationConfig, native_dtype
from kveval.config.engine import flag_name
from kveval.errors import UsageError
from kveval.formats.registry import is_unquantized
from kveval.judge.comparison.comparison import at_levels
from kveval.judge.comparison.headline import held_to
from kveval.judge.comparison.own_score import own_score
from kveval.judge.comparison.scope import SUMMARY_LEVELS, Scope
from kveval.judge.comparison.settling import Settling, settling
from kveval.judge.gate.check import EXIT_CODES, Check, State
from kveval.judge.gate.gate import Gate, gate
from kveval.judge.gate.rules import quantization
from kveval.judge.recommend.capacity import ContextLimit, Memory, context_limits, memory
from kveval.judge.recommend.serve_command import ServeCommand, serve_command
from kveval.run.manifest import VariantRun

# A smaller gain can come from block sizes and start-up alone.
_LEAST_FREED_SHARE = 0.05
_NOT_ENDED = ("planned", "running", "stopped")
_SIZING_FLAGS = ("gpu-memory-utilization", "kv-cache-memory-bytes", "num-gpu-blocks-override")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Says what is known about one candidate.

    Attributes:
        obstacle: why it is not recommended even if it passes. None if nothing rules it out.
        native: the cache dtype that stores the emulated format natively, if there is one.
        held_tokens: the longest context up to which everything passes.
        settling: what would decide an undecided one.
    """

    variant: VariantRun
    check: Check
    obstacle: str | None
    native: str | None
    memory: Memory
    score: float | None
    held_tokens: int | None
    settling: Settling | None

    @property
    def state(self) -> State:
        return self.check.state


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Recommends a candidate, or the baseline.

    Attributes:
        chosen: None if the baseline should stay, for `reason`.
        serve, rollback: the commands that serve the chosen candidate and the baseline. None if there is no candidate,
            or if kveval did not launch the server.
        exit_code: 0 with a candidate. 1 if all candidates lose, or the baseline scores below the policy's minimum. 3 if
            an engine or a control failed, or the run was cut short. 5 if it is undecided.
        limits: the context lengths that the chosen candidate may get.
    """

    gate: Gate
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    reason: str
    exit_code: int
    serve: ServeCommand | None
    rollback: ServeCommand | None
    limits: tuple[ContextLimit, ...]
    warnings: tuple[str, ...]


def recommend(
    path: Path, *, overrides: Mapping[str, Any] | None = None, sequences: int | None = None
) -> Recommendation:
    """Judges a run as `kveval gate` does. Among what passes, the most freed memory wins, then the score.

    With `sequences`, at least 1, the limits include that for so many requests at once.

    Raises:
        KvevalError: the run cannot be judged; see `kveval.judge.gate.gate.gate`.
        UsageError: `sequences` is below 1.
    """
    if sequences is not None and sequences < 1:
        raise UsageError(f"--sequences: {sequences} is not allowed; use 1 or more")
    return recommended(gate(path, overrides=overrides), sequences)


def recommended(decision: Gate, sequences: int | None = None) -> Recommendation:
    """Returns what to serve with, of a run that the gate has checked."""
    run = decision.run
    candidates = tuple(_candidate(decision, check) for check in decision.checks if check.kind == quantization.KIND)
    blocked = _blocked(decision)
    fit = [one for one in candidates if one.state == "pass" and one.obstacle is None]
    chosen = max(fit, key=_rank, default=None) if blocked is None else None
    reason, exit_code = blocked or (_why(chosen, candidates), 0 if chosen else _exit_code(candidates))
    return Recommendation(
        gate=decision,
        candidates=candidates,
        chosen=chosen,
        reason=reason,
        exit_code=exit_code,
        serve=serve_command(run.manifest, chosen.variant) if chosen else None,
        rollback=serve_command(run.manifest, run.baseline),
        limits=tuple(context_limits(run, chosen.variant, chosen.held_tokens or 0, sequences)) if chosen else (),
        warnings=tuple(_warnings(decision, chosen)),
    )


def _candidate(decision: Gate, check: Check) -> Candidate:
    run, policy = decision.run, decision.policy
    variant = run.manifest.variants[check.variant]
    emulate = variant.spec.get("emulate")
    native = native_dtype(EmulationConfig.model_validate(emulate)) if emulate else None
    freed = memory(run, variant)
    summary = at_levels(check.comparisons, *SUMMARY_LEVELS)
    return Candidate(
        variant=variant,
        check=check,
        obstacle=_obstacle(variant, freed, native),
        native=native,
        memory=freed,
        score=own_score(
            run, variant.name, Scope("overall"), confidence=policy.confidence, advisory=policy.advisory
        ).mean,
        held_tokens=held_to([row for row in at_levels(summary, "length") if row.asked]),
        settling=settling(summary, run.path) if check.state == "undecided" else None,
    )


def _obstacle(variant: VariantRun, freed: Memory, native: str | None) -> str | None:
    """Returns why `variant` cannot be recommended, whatever it scored. None if nothing rules it out."""
    facts = variant.facts
    if facts.is_emulated:
        instead = (
            f"on a GPU, --kv-cache-dtype {native} stores it natively and saves it: measure that there"
            if native
            else "vLLM has no cache dtype that stores exactly this"
        )
        return f"emulated: saves no memory here, and the kernel of a native cache was not tested; {instead}"
    if facts.storage != "native":
        return "nothing established that the server stores the format"
    said = {"effective_cache_dtype": "what its cache stores", "kv_capacity_tokens": "what its cache holds"}
    declared = next((what for name, what in said.items() if name in (facts.declared or ())), None)
    if declared:
        return f"{declared} is declared in the configuration, and was not established from the server"
    broken = next((finding for finding in variant.findings if finding.level == "error"), None)
    if broken:
        return f"measured in spite of {broken.code}: {broken.message}"
    effective = facts.effective_cache_dtype
    if effective is None:
        return "the server does not say what its cache stores"
    if is_unquantized(effective):
        return f"frees no memory: its cache stores {effective}"
    if freed.freed_share is not None and freed.freed_share < _LEAST_FREED_SHARE:
        return f"frees no memory: its cache fits {freed.capacity_ratio:.2f}x the baseline's tokens"
    return None


def _rank(candidate: Candidate) -> tuple[float, float]:
    # Two settings of one format differ by a few blocks, which is not worth counting.
    return round(candidate.memory.freed_share or 0.0, 2), candidate.score or 0.0


def _blocked(decision: Gate) -> tuple[str, int] | None:
    """Returns why nothing of this run can be recommended, with the exit code. None if something can."""
    manifest = decision.run.manifest
    cut = [f"{v.name} {v.status}" for v in manifest.variants.values() if v.status in _NOT_ENDED]
    if cut or manifest.status == "running":
        unfinished = ", ".join(cut) or manifest.status
        return f"the run is not finished ({unfinished}): complete it with `kveval sweep ... --resume`", 3
    for check in decision.checks:
        if check.against is None and check.state != "pass":
            return check.reason, EXIT_CODES[check.state]
    for problem in decision.judgement.problems:
        # It may be the baseline that is broken, and every candidate was compared with it.
        if problem.code == "impossible_gain":
            return problem.message, EXIT_CODES["infrastructure"]
    return None


def _exit_code(candidates: tuple[Candidate, ...]) -> int:
    states = {one.state for one in candidates}
    if states == {"regression"}:
        return EXIT_CODES["regression"]
    return EXIT_CODES["infrastructure" if "infrastructure" in states else "undecided"]


def _why(chosen: Candidate | None, candidates: tuple[Candidate, ...]) -> str:
    if chosen is not None:
        others = sum(one.state == "pass" and one.obstacle is None for one in candidates) - 1
        return "of all that pass, it frees the most memory" if others else "it passes and frees memory"
    if all(one.state == "regression" for one in candidates):
        return "every candidate loses more than the margin"
    if any(one.state == "pass" for one in candidates):
        return "what passes saves no memory in this run"
    waiting = sum(one.state == "undecided" for one in candidates)
    return f"nothing has passed yet ({waiting} undecided)"


def _warnings(decision: Gate, chosen: Candidate | None) -> Iterator[str]:
    if chosen is None:
        return
    for finding in chosen.variant.findings:
        if finding.level == "warning":
            yield finding.message
    for note in decision.notes:
        if note.code == "unequal_control":
            yield note.message
    if chosen.variant.spec.get("endpoint"):
        yield "kveval launched neither server: they may have different memory, which also changes their capacities"
    mine, before = (_sizing(variant) for variant in (chosen.variant, decision.run.baseline))
    for name in _SIZING_FLAGS:
        if mine.get(name) != before.get(name):
            yield f"{name} is {mine.get(name)}, the baseline's {before.get(name)}: the capacities differ by that too"


def _sizing(variant: VariantRun) -> dict[str, Any]:
    return {flag_name(name): value for name, value in (variant.spec.get("engine_args") or {}).items()}
