from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.stored import RECORD

from kveval.run.records import Record


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "great"},
        {"score": 1.1},
        {"score": float("nan")},
        {"total_ms": float("inf")},
        {"metrics": {"ruler": float("nan")}},
        {"context_length": 0},
        {"extra": 1},
    ],
)
def test_records_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    Record.model_validate(RECORD)
    with pytest.raises(ValidationError):
        Record.model_validate(RECORD | change)
