from __future__ import annotations

import dataclasses
import random

import pytest

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question
from kveval.tasks.builders.contract import plan_haystack


def ask(builder: Builder) -> Haystack:
    return plan_haystack("its builder", builder, range(3), 0.5, random.Random(0))


def plans(**changes):
    """A builder whose haystacks are right but for `changes` to the first needle, the first question or themselves."""

    class Plans(Builder):
        def haystack(self, numbers, depth_shift, rng):
            needles = [Needle(f"The code of box {n} is {7000000 + n}.", 50) for n in numbers]
            questions = [Question({"question": f"Box {n}?"}, (str(7000000 + n),), (n,)) for n in numbers]
            for part, of in ((needles, Needle), (questions, Question)):
                names = changes.keys() & {field.name for field in dataclasses.fields(of)}
                part[0] = dataclasses.replace(part[0], **{name: changes[name] for name in names})
            if "asks_about" in changes:
                questions[0] = dataclasses.replace(questions[0], needles=changes["asks_about"])
            return Haystack(needles, changes.get("questions", questions), changes.get("forbidden", frozenset()))

    return Plans()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"questions": []}, "returns 0 questions for 3 samples; use one for each of `numbers`"),
        ({"questions": [Question({}, ("a",))] * 16}, "returns 16 questions for 3 samples"),
        ({"answers": "7000000"}, "asks question 0 with answers='7000000'; use a tuple of non-empty strings"),
        ({"answers": (7000000,)}, "asks question 0 with answers=(7000000,)"),
        ({"answers": 7000000}, "asks question 0 with answers=7000000"),
        ({"answers": ()}, "asks question 0 without answers"),
        ({"answers": ("",)}, "asks question 0 with answers=('',)"),
        ({"distractors": "700"}, "asks question 0 with distractors='700'"),
        ({"asks_about": (3,)}, "asks question 0 about needles=(3,); use indexes of its 3 needles"),
        ({"asks_about": (-1,)}, "asks question 0 about needles=(-1,)"),
        ({"fields": {"question": {1, 2}}}, "asks question 0 with fields={'question': {1, 2}}"),
        ({"depth_percent": float("nan")}, "plants needle 0 at depth_percent=nan; use a number from 0 to 100"),
        ({"depth_percent": 300}, "plants needle 0 at depth_percent=300"),
        ({"depth_percent": -5}, "plants needle 0 at depth_percent=-5"),
        ({"depth_percent": "50"}, "its builder fails: TypeError"),
        ({"text": 7}, "plants needle 0 with the text 7"),
        ({"forbidden": "7000000"}, "returns forbidden='7000000'; use a set of non-empty strings"),
        ({"forbidden": frozenset((7000000,))}, "returns forbidden=frozenset({7000000})"),
    ],
)
def test_a_broken_contract_is_told_in_one_line(changes, says):
    with pytest.raises(ConfigError) as refused:
        ask(plans(**changes))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_kept_contract_is_accepted():
    assert len(ask(plans()).questions) == 3


class Raises(Builder):
    def haystack(self, numbers, depth_shift, rng):
        return rng.sample(range(len(numbers) - 1), len(numbers))


def test_what_a_builder_raises_is_told():
    says = "its builder fails: ValueError: Sample larger than population"
    with pytest.raises(ConfigError, match=says):
        ask(Raises())
