"""What a rule of the gate is, how the rules are found, and what they return."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kveval.errors import ExitCode
from kveval.judge.comparison.comparison import Comparison, at_levels
from kveval.judge.comparison.headline import headline
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.pairing import VariantPair
from kveval.judge.comparison.scope import SUMMARY_LEVELS
from kveval.judge.comparison.verdict import ReasonCode
from kveval.judge.gate import rules
from kveval.judge.run_data import RunData

State = Literal["pass", "undecided", "infrastructure", "regression"]
WORST_LAST: tuple[State, ...] = ("pass", "undecided", "infrastructure", "regression")
EXIT_CODES: Mapping[State, ExitCode] = {
    "pass": ExitCode.OK,
    "undecided": ExitCode.UNDECIDED,
    "infrastructure": ExitCode.INFRASTRUCTURE,
    "regression": ExitCode.LOSS,
}


@dataclass(frozen=True, slots=True)
class Check:
    """Says whether one thing holds, and why, in one sentence.

    Attributes:
        kind: what was checked, in a word or two: the start of its line in every output.
        variant: the variant that was checked, or the id of the run.
        against: what `variant` was compared with. None if it was not compared.
        reason_code: of the verdict on `variant`. None if the check is of something else.
        blocks: whether it fails the gate. A check that passes never does.
        comparisons, pair: the rows the state rests on, and the samples behind them.
    """

    kind: str
    variant: str
    state: State
    reason: str
    against: str | None = None
    reason_code: ReasonCode | None = None
    blocks: bool = True
    comparisons: tuple[Comparison, ...] = ()
    pair: VariantPair | None = None

    @property
    def overall(self) -> Comparison | None:
        return next(iter(at_levels(self.comparisons, "overall")), None)


def check_pair(kind: str, pair: VariantPair, must_answer: Iterable[str], judgement: Judgement) -> Check:
    """Returns the check of `pair`: what its headline says, or what broke in the variants that `must_answer`."""
    policy, compared = judgement.policy, (*judgement.comparisons, *judgement.against_blessed)
    rows = tuple(row for row in compared if (row.variant, row.against) == (pair.variant, pair.against))
    answer = headline(rows, policy, judgement.run)
    problem = next((found.message for found in judgement.problems_of(*must_answer)), None)
    state: State = "regression" if answer.word == "fail" else answer.word
    reason, blocks = answer.sentence, True
    if problem:
        state = "infrastructure"
        reason = f"{problem}; of what was answered: {answer.reason}" if answer.word == "fail" else problem
    elif state == "undecided":
        # `undecided: allow` lets through only what was measured and can be true.
        (overall,) = at_levels(rows, "overall")
        no_evidence = any(one.difference.low is None or one.sensitive.low is None for one in overall.evidence(policy))
        is_doubted = any(row.verdict.is_doubted for row in at_levels(rows, *SUMMARY_LEVELS) if row.verdict)
        blocks = policy.undecided == "block" or no_evidence or is_doubted
    return Check(kind, pair.variant, state, reason, pair.against, answer.reason_code, blocks, rows, pair)


@dataclass(frozen=True, slots=True)
class Rule:
    """Describes one rule of the gate.

    To add a rule, add a file to ``kveval/judge/gate/rules/`` that assigns a `Rule` to ``RULE``. Nothing else lists the
    rules.

    Attributes:
        position: the checks are shown from the lowest position to the highest.
        check: returns what the rule found, with a sentence for each check. Nothing if the rule does not apply.
    """

    position: int
    check: Callable[[RunData, Judgement], Iterable[Check]]


def find_rules() -> list[Rule]:
    """Returns every rule, in the order in which checks are shown."""
    modules = pkgutil.iter_modules(rules.__path__)
    found = [importlib.import_module(f"{rules.__name__}.{module.name}").RULE for module in modules]
    return sorted(found, key=lambda rule: rule.position)
