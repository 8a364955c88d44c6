from __future__ import annotations

from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.errors import ConfigError

OWN_BUILDER = """
from dataclasses import dataclass

from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question


@dataclass(frozen=True)
class Own(Builder):
    def haystack(self, numbers, depth_shift, rng):
        needles = [Needle(f"The code of box {n} is {7000000 + n}.", 50) for n in numbers]
        number = numbers[0]
        questions = [
            Question({"question": f"Box {number}?", "answer_lead": "It is"}, (str(7000000 + number),), (0,))
            for _ in numbers
        ]
        return Haystack(needles, questions)


own = HaystackDataset(Own)
"""


def test_the_same_question_twice_is_refused(plan_of: Planner, own_tasks: Path) -> None:
    yaml = own_tasks / "own" / "mine.yaml"
    yaml.write_text(
        yaml.read_text()
        .replace("kveval.tasks.families.needle.builder.niah_multikey", "boxes.own")
        .replace(", keys: 5", "")
    )
    (yaml.parent / "boxes.py").write_text(OWN_BUILDER)
    with pytest.raises(ConfigError, match=r"task 'mine' at context_length 512: asks the same question twice, with the"):
        plan_of(include_path=str(own_tasks), tasks=["mine"])


def test_a_scorer_of_ones_own_is_tried_while_planning(plan_of: Planner, own_tasks: Path) -> None:
    with (own_tasks / "own" / "mine.yaml").open("a") as file:
        file.write("process_results: !function own_score.score\n")
    (own_tasks / "own" / "own_score.py").write_text("def score(doc, results): return {'score': results[0][0] == '7'}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: process_results fails: IndexError: .* \(tried on an empty out"):
        plan_of(include_path=str(own_tasks), tasks=["mine"])
