"""What a rule of the gate is, and how the rules are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate import rules
from kveval.judge.gate.check import Check
from kveval.judge.run_data import RunData


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
