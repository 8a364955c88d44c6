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
