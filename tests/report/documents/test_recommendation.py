"""What `kveval recommend --json` prints."""

from __future__ import annotations

import json
from pathlib import Path

from support.make_run import scored
from support.recommendations import losing, run

from kveval.judge.recommend.recommend import recommend
from kveval.report.documents.recommendation import RECOMMENDATION_VERSION, recommendation_document


def test_the_setting_that_passes_and_the_way_back(tmp_path: Path) -> None:
    document = recommendation_document(recommend(run(tmp_path / "run")))
    json.dumps(document, allow_nan=False)
    assert (document["version"], document["recommended"], document["exit_code"]) == (RECOMMENDATION_VERSION, "fp8", 0)
    (candidate,) = document["candidates"]
    assert (candidate["variant"], candidate["recommended"], candidate["verdict"]) == ("fp8", True, "pass")
    assert document["serve"]["command"][0] == document["rollback"]["command"][0] == "vllm"
    assert document["memory"]["capacity_ratio"] == 2.0


def test_without_a_candidate_nothing_is_served_and_the_reason_stands_there(tmp_path: Path) -> None:
    document = recommendation_document(recommend(run(tmp_path / "run", {"bf16": scored(0.9), "fp8": losing(0.3)})))
    assert (document["recommended"], document["serve"], document["memory"], document["context_limits"]) == (
        None, None, None, [],
    )  # fmt: skip
    assert "every candidate loses more than the margin" in document["reason"]
    assert document["rollback"]["flags"]
