from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.stored import MANIFEST

from kveval.run.manifest import Manifest


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", ".hidden", "a/b", "a\n"])
def test_a_variant_cannot_name_a_file_outside_the_run(name: str) -> None:
    variant = {"name": "x", "role": "baseline", "spec": {}}
    Manifest.model_validate(MANIFEST | {"variants": {"bf16-aa": variant}})
    with pytest.raises(ValidationError):
        Manifest.model_validate(MANIFEST | {"variants": {name: variant}})


def test_the_role_of_runs_before_0_1_0_is_read_as_control() -> None:
    old = {"name": "fp8-twin", "role": "twin", "of": "fp8", "spec": {}, "facts": None}
    manifest = Manifest.model_validate(MANIFEST | {"variants": {"fp8-twin": old}})
    assert manifest.variants["fp8-twin"].role == "control"
    assert not manifest.variants["fp8-twin"].facts.is_established


def test_facts_that_changed_are_read_back_and_runs_without_them_too() -> None:
    change = {"at_question": 67, "at": "2026-12-01T00:20:00+00:00", "name": "effective_cache_dtype"}
    variant = {"name": "fp8", "role": "candidate", "spec": {}}
    changed = variant | {"facts_changed": [change | {"before": "fp8", "after": "bfloat16"}]}
    manifest = Manifest.model_validate(MANIFEST | {"variants": {"fp8": changed, "int8": variant | {"name": "int8"}}})
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest
    assert manifest.variants["fp8"].facts_changed[0].after == "bfloat16"
    assert manifest.variants["int8"].facts_changed == []
