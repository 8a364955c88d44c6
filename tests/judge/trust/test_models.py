"""Two servers with two models are not two caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.make_run import scored
from support.nights import asked_in_turn, night

from kveval.judge.comparison.judgement import judge_run

ROWS = asked_in_turn(haystacks=2, questions=2)


def facts(answers_as: str | None = "m", **served: Any) -> dict[str, Any]:
    return {"storage": "native", "answers_as": answers_as, "served_model": json.dumps({"id": "m", **served})}


@pytest.mark.parametrize(
    ("baseline", "candidate", "is_other"),
    [
        (facts(root="/models/a"), facts(root="/models/a"), False),
        (facts(root="/models/a"), facts(root="/models/b"), True),
        (facts(), facts(root="/models/b"), False),
        (facts(), facts(root="m"), False),
        (facts("m"), facts("other"), True),
        (facts(None), facts("other"), False),
        ({"storage": "native", "served_model": "not json"}, facts(root="/models/b"), False),
    ],
)
def test_what_the_servers_say_of_their_models(
    tmp_path: Path, baseline: dict[str, Any], candidate: dict[str, Any], is_other: bool
) -> None:
    run = night(tmp_path, ROWS, {"bf16": {"facts": baseline}, "fp8": {"facts": candidate}}, fp8=scored(0.9))
    assert ("other_model" in {one.code for one in judge_run(run).problems}) is is_other


def test_the_configuration_may_say_that_models_differ(tmp_path: Path) -> None:
    variants = {
        "bf16": {"facts": facts(root="/models/a")},
        "fp8": {"facts": facts(root="/models/b"), "spec": {"model": "/models/b"}},
    }
    assert judge_run(night(tmp_path, ROWS, variants, fp8=scored(0.9))).problems == ()
