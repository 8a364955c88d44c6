from __future__ import annotations

import pytest

from kveval.tasks.scoring.python_source import statements_of


def test_source_is_read_as_statements():
    assert [type(statement).__name__ for statement in statements_of("x = 1\nf(x)") or ()] == ["Assign", "Expr"]
    assert statements_of("") == []


@pytest.mark.parametrize("source", ["def f(:", "It is not stated.", "x = '", "\0", "(" * 5000])
def test_anything_else_is_not_python(source):
    assert statements_of(source) is None
