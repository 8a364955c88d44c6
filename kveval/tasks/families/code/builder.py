"""Questions about source code: real code as haystack, definitions planted in it that no model has seen.

Each class is one task. Definitions are planted whole, between whole excerpts of other files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question, depths_percent, evenly_spaced
from kveval.tasks.builders.sources import Cut
from kveval.tasks.corpora.source_code import Excerpt, code_base
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.code import targets
from kveval.tasks.families.code.made_up import Helper, MadeUpNames, chain, draw_path, subjects
from kveval.tasks.families.code.targets import Making, Target
from kveval.tasks.scoring import sandbox

_VALUE_DIGITS = 7
_TESTS, _VALUES_A_TEST = 4, 4


@dataclass(frozen=True)
class FindFunction(Builder):
    """Plants real functions without docstrings under made-up names, and asks which one a docstring describes."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        made_up = MadeUpNames(rng)
        found = _targets([targets.described] * len(numbers), made_up, rng)
        asked = [
            {"question": _DESCRIBED.format(about=target.about), "answer_lead": "The function is"} for target in found
        ]
        return _one_each(found, asked, depth_shift, made_up, rng)


@dataclass(frozen=True)
class FindDefinition(Builder):
    """Plants real definitions with one thing replaced (default value, parent class or decorator), and asks for it."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        made_up = MadeUpNames(rng)
        kinds = (targets.default_value, targets.parent_class, targets.decorator)
        found = _targets([kinds[(number + numbers.start) % len(kinds)] for number in numbers], made_up, rng)
        asked = [
            {"question": _DEFINED.format(about=target.about), "answer_lead": f"The {target.about} is"}
            for target in found
        ]
        return _one_each(found, asked, depth_shift, made_up, rng)


@dataclass(frozen=True)
class CompleteLine(Builder):
    """Asks for the rest of a wrapper's first line, which repeats the signature of a function far back."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        made_up = MadeUpNames(rng)
        found = _targets([targets.signature] * len(numbers), made_up, rng)
        asked = [{"question": _WRAPPER.format(line=target.about), "answer_lead": target.about} for target in found]
        return _one_each(found, asked, depth_shift, made_up, rng)


@dataclass(frozen=True)
class CallChain(Builder):
    """Plants functions that call functions that call functions, and asks which number comes back in the end.

    Attributes:
        calls: functions in a call chain, at least 2.
    """

    calls: int = 3

    def __post_init__(self) -> None:
        if self.calls < 2:
            raise ConfigError(f"calls={self.calls}; use a whole number from 2")

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        made_up = MadeUpNames(rng)
        count = len(numbers)
        depths = depths_percent(count * self.calls, depth_shift)
        rng.shuffle(depths)
        values = [made_up.number(_VALUE_DIGITS) for _ in range(count)]
        needles: list[Needle] = []
        questions = []
        for i, value in enumerate(values):
            names = [made_up.function() for _ in range(self.calls)]
            paths = [draw_path(code_base().paths, rng) for _ in names]
            own = tuple(range(len(needles), len(needles) + self.calls))
            excerpts = chain(names, value, paths, rng)
            needles += [
                Needle(excerpt.text(), depth, lead="\n\n")
                for excerpt, depth in zip(excerpts, depths[own[0] :], strict=False)
            ]
            fields = {
                "question": f"Follow the calls in the source code. Which number does {names[0]}([]) return in the end?",
                "answer_lead": f"{names[0]}([]) returns",
            }
            questions.append(Question(fields, (value,), own, tuple(values[:i] + values[i + 1 :])))
        rng.shuffle(questions)
        return Haystack(needles, questions, frozenset(made_up.drawn), code_base(), Cut.PIECE)


@dataclass(frozen=True)
class Execute(Builder):
    """Plants helpers with random arithmetic, and asks for a function that calls one of them; it is run."""

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Makes the builder. Raises PlanError if generated code cannot be run safely on this machine."""
        sandbox.require()
        return super().from_metadata(metadata)

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        made_up = MadeUpNames(rng)
        helpers = [
            Helper.draw(subject, draw_path(code_base().paths, rng), made_up, rng)
            for subject in subjects(len(numbers), rng)
        ]
        asked = [_ask_for_program(helper, rng) for helper in helpers]
        found = [
            Target(Excerpt(helper.path, None, helper.source()), fields.pop("solution"), "", frozenset())
            for helper, fields in zip(helpers, asked, strict=True)
        ]
        subjects_ = {helper.subject for helper in helpers}
        return _one_each(found, asked, depth_shift, made_up, rng, subjects_)


_DESCRIBED = """Which function in the source code does this description belong to? Its docstring has been removed.
"{about}"
Answer with the name of the function only."""

_DEFINED = "What is the {about} in the source code? Answer with the name or value only."

_WRAPPER = """Complete the last line. It begins a wrapper that has the parameters of the function of that name in the \
source code, in the same order and with the same default values. Answer with the completed line only.

# file: wrappers.py
{line}"""

_PROGRAM = """Write a Python function solve(values). It takes a list of whole numbers and returns a list with the \
{subject} for each of them, in their order: the number is the {changing}, the {first} is {first_value} and the \
{second} is {second_value}. Call the function of the source code that returns the {subject}; it is in scope. \
Answer with the code of solve only."""


def _ask_for_program(helper: Helper, rng: random.Random) -> dict[str, Any]:
    """Fields of the question, with the ``solution``."""
    changing, first, second = rng.sample(range(3), 3)
    fixed = {first: rng.randrange(2, 100), second: rng.randrange(2, 100)}

    def ordered(value: Any) -> list[Any]:
        return [value if i == changing else fixed[i] for i in range(3)]

    tests = []
    for _ in range(_TESTS):
        values = rng.sample(range(1, 1000), _VALUES_A_TEST)
        tests.append({"values": values, "returns": [helper(*ordered(value)) for value in values]})
    question = _PROGRAM.format(
        subject=helper.subject,
        changing=helper.meanings[changing],
        first=helper.meanings[first],
        first_value=fixed[first],
        second=helper.meanings[second],
        second_value=fixed[second],
    )
    call = helper.call([str(argument) for argument in ordered("value")])
    return {
        "question": question,
        "answer_lead": "\n```python\ndef solve(values):",
        "module": helper.module,
        "helper": helper.source(),
        "tests": json.dumps(tests),
        "solution": f"def solve(values):\n    return [{call} for value in values]",
    }


def _targets(making: Sequence[Making], made_up: MadeUpNames, rng: random.Random) -> list[Target]:
    definitions = code_base().definitions
    found = targets.planted(definitions, rng.sample(range(len(definitions)), len(definitions)), made_up, making)
    if len(found) < len(making):
        raise ConfigError(
            f"{len(making)} questions about one haystack, and the code base has definitions for {len(found)}; "
            "lower questions_per_haystack"
        )
    return found


def _one_each(
    found: Sequence[Target],
    asked: Sequence[Mapping[str, Any]],
    depth_shift: float,
    made_up: MadeUpNames,
    rng: random.Random,
    forbidden: Sequence[str] | set[str] = (),
) -> Haystack:
    """Plants one needle for each target in order of depth, and asks about them in random order."""
    answers = [target.answer for target in found]
    needles = evenly_spaced([target.excerpt.text() for target in found], depth_shift, lead="\n\n")
    questions = [Question.about(asked[i], answers, i) for i in rng.sample(range(len(found)), len(found))]
    originals = (text for target in found for text in target.original)
    return Haystack(needles, questions, frozenset((*made_up.drawn, *originals, *forbidden)), code_base(), Cut.PIECE)


code_find_function = HaystackDataset(FindFunction)
code_definition = HaystackDataset(FindDefinition)
code_complete_line = HaystackDataset(CompleteLine)
code_call_chain = HaystackDataset(CallChain)
code_execute = HaystackDataset(Execute)
