from __future__ import annotations

import json
from typing import Any

import pytest

from kveval.run.facts import Facts
from kveval.run.same_model import is_same_root, model_findings

BASE = {"id": "llama-f16", "root": "/models/x", "max_model_len": 8192}
OURS = {**BASE, "id": "llama-fp8"}


def facts(served: dict[str, Any], **changes: Any) -> Facts:
    given = {"storage": "native", "served_model": json.dumps(served), "max_model_len": served.get("max_model_len")}
    return Facts.model_validate({**given, "answers_as": served.get("id"), "prompt_form": "token_ids", **changes})


def codes(
    ours: Facts, baseline: Facts, *, is_same_model: bool = True, engine_args: dict[str, Any] | None = None
) -> dict[str, str]:
    found = model_findings(
        ours, baseline, is_same_model=is_same_model, engine_args=engine_args or {}, declared_max_model_len=None
    )
    return {finding.code: finding.level for finding in found}


def test_servers_of_one_model_by_their_own_names() -> None:
    assert codes(facts(OURS), facts(BASE)) == {}
    assert codes(facts(OURS, answers_as="/models/x"), facts(BASE)) == {}
    assert codes(facts(OURS, answers_as=None), facts(BASE)) == {}
    # A gateway answers by one name for both.
    assert codes(facts(OURS, answers_as="gateway"), facts(BASE, answers_as="gateway")) == {}


@pytest.mark.parametrize(
    ("served", "changes", "code"),
    [
        ({"root": "/models/Qwen2-7B"}, {}, "other_model"),
        ({"parent": "/models/y"}, {}, "other_model"),
        ({"n_params": 7}, {}, "other_model"),
        ({"size": 7}, {}, "other_model"),
        ({}, {"answers_as": "gpt-4o-mini"}, "other_answering_model"),
        ({"max_model_len": 4096}, {}, "other_max_model_len"),
        ({}, {"prompt_form": "text"}, "other_tokenizer"),
    ],
)
def test_each_fact_of_another_model_is_an_error_unless_the_configuration_names_another(
    served: dict[str, Any], changes: dict[str, Any], code: str
) -> None:
    base = facts({**BASE, "parent": "/models/x", "n_params": 8, "size": 8}, prompt_form="token_ids")
    if "prompt_form" in changes:
        base = base.model_copy(update={"prompt_form": "text_without_bos"})
    ours = facts({**OURS, "n_params": 8, "size": 8, **served}, **changes)
    assert codes(ours, base) == {code: "error"}
    assert codes(base.model_copy(update={"max_model_len": ours.max_model_len}), base, is_same_model=False) == {}
    assert codes(ours, base, is_same_model=False) == {}


def test_a_window_that_the_configuration_states_is_no_error() -> None:
    ours, base = facts({**OURS, "max_model_len": 4096}), facts(BASE)
    assert codes(ours, base) == {"other_max_model_len": "error"}
    assert codes(ours, base, engine_args={"max-model-len": 4096}) == {}
    assert codes(ours, base, engine_args={"max_model_len": 4096}) == {}
    assert codes(ours.model_copy(update={"declared": ["max_model_len"]}), base) == {}
    assert codes(ours.model_copy(update={"max_model_len": None}), base) == {}


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("/models/x", "/models/x/", True),
        ("/models/x", "/models/X", False),
        ("/a/x", "/b/x", False),
        ("/a/hub/models--Qwen--Qwen2-7B/snapshots/abc123", "Qwen/Qwen2-7B", True),
        ("/a/models--Qwen--Qwen2-7B/snapshots/abc", "/b/models--Qwen--Qwen2-7B/snapshots/abc/", True),
        ("/a/models--Qwen--Qwen2-7B/snapshots/abc", "/a/models--Qwen--Qwen2-7B/snapshots/def", False),
        ("Qwen/Qwen2-7B", "Qwen/Qwen2-7B-Instruct", False),
    ],
)
def test_names_of_one_checkpoint(ours: str, theirs: str, same: bool) -> None:
    assert is_same_root(ours, theirs) is is_same_root(theirs, ours) is same


@pytest.mark.parametrize("served", [None, "", "[]", "not JSON", '"text"', "{}"])
def test_a_server_that_says_nothing_of_its_model_is_not_refused(served: str | None) -> None:
    ours = facts(OURS).model_copy(update={"served_model": served})
    assert codes(ours, facts(BASE)) in ({}, {"other_answering_model": "error"})
    assert codes(ours.model_copy(update={"answers_as": "llama-f16"}), facts(BASE)) == {}
