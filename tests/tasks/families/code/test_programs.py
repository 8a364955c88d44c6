from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.families.code.programs import fenced_blocks, program_of

ROWS = yaml.safe_load((DATA / "code_answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS["program_of"], ids=lambda row: row["output"])
def test_programs_are_found(row):
    assert program_of(row["output"], "solve", "\n```python\ndef solve(x):") == row["code"]


def test_the_last_code_block_may_be_unclosed():
    assert fenced_blocks("```python\na = 1\n```\nand\n```\nb = 2\n") == ["a = 1\n", "b = 2\n"]
