"""What one case of the soak does, and what it is allowed to end with."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Variant = Literal["bf16", "fp8"]
# That a variant is asked.
QUESTIONS = 120

# A signal that ends a process is its negative number, as Python's subprocess says it.
KILLED = -9


@dataclass(frozen=True)
class Act:
    """What the driver does from outside while a sweep runs.

    Attributes:
        what: kill_harness, kill_server, kill_core, kill_worker, restart_server, jump_clock, limit_files.
        variant: whose server, and whose answers are counted.
        after: answers that `variant` has given by then. 0: as soon as its server was launched.
        with_: the signal's number, the restarted server's facts, the seconds of the jump, or the bytes that a file may
            still grow by.
    """

    what: str
    variant: Variant
    after: int
    with_: Any = None


@dataclass(frozen=True)
class Case:
    """One fault, and what is right after it.

    Attributes:
        sweep: exit codes that `kveval sweep` may end with; `gate`: of `kveval gate` after it.
        servers: what the servers do wrong, by variant; see `server.Script`.
        launched: kveval launches the servers. Otherwise it attaches to running ones.
        resumed: exit codes of ``--resume`` with servers that are well again, empty if there is nothing to resume;
            `resumed_gate`: of the gate after it.
        damage: what a power cut leaves in place of some answers before ``--resume``: zeros, a torn or glued line.
        disk_kib: size of the disk that the run directory is on. None: the machine's.
        config: keys of the configuration that differ.
        within_s: limit of each command.
    """

    sweep: frozenset[int]
    gate: frozenset[int]
    servers: dict[Variant, dict[str, Any]] = field(default_factory=dict)
    act: Act | None = None
    launched: bool = False
    resumed: frozenset[int] = frozenset()
    resumed_gate: frozenset[int] = frozenset()
    damage: Literal["zeros", "torn", "glued"] | None = None
    disk_kib: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    within_s: float = 90.0


Fault = Callable[[random.Random], Case]
FAULTS: dict[str, Fault] = {}


def fault(make: Fault) -> Fault:
    """Registers a fault by its function's name. Its docstring says why the codes are right."""
    FAULTS[make.__name__] = make
    return make


def on_real_engine(case: Case, questions: int) -> Case:
    """Returns `case` for vLLM itself, which is asked fewer questions: too few for a pass, if they differ by chance."""
    act = case.act and replace(case.act, after=case.act.after * questions // QUESTIONS)
    gate, resumed_gate = (allowed | codes(5) if 0 in allowed else allowed for allowed in (case.gate, case.resumed_gate))
    return replace(case, act=act, gate=gate, resumed_gate=resumed_gate, launched=True, within_s=600.0)


def codes(*values: int) -> frozenset[int]:
    return frozenset(values)
