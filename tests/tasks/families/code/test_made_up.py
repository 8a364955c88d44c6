"""What is made up for code runs as Python, and none of it comes twice."""

from __future__ import annotations

import ast
import random

import pytest

from kveval.errors import ConfigError
from kveval.tasks.corpora.source_code import Excerpt
from kveval.tasks.families.code.made_up import Helper, MadeUpNames, chain, draw_path, subjects


def run(code: str) -> dict:
    names: dict = {}
    exec(code, names)  # noqa: S102 - our own code
    return names


def test_no_name_or_number_is_drawn_twice():
    made_up = MadeUpNames(random.Random(0))
    drawn = [*(made_up.function() for _ in range(100)), *(made_up.variable() for _ in range(100)),
             *(made_up.class_name() for _ in range(100)), *(made_up.number(3) for _ in range(100))]  # fmt: skip
    assert set(drawn) == made_up.drawn
    assert len(made_up.drawn) == 400


def test_a_function_is_not_named_by_words_to_avoid():
    made_up = MadeUpNames(random.Random(0))
    verb, noun = made_up.function().split("_")
    assert all({verb, noun}.isdisjoint(made_up.function(avoid={verb, noun}).split("_")) for _ in range(200))


def test_more_numbers_than_there_are_are_refused():
    made_up = MadeUpNames(random.Random(0))
    assert len({made_up.number(1) for _ in range(9)}) == 9
    with pytest.raises(ConfigError, match="too many numbers of 1 digits in one haystack; ask fewer questions"):
        made_up.number(1)


def test_a_made_up_file_stands_in_a_real_folder():
    assert draw_path(["a/b/c.py"], random.Random(0)).startswith("a/b/")
    assert draw_path(["a/b/c.py"], random.Random(0)).endswith(".py")


@pytest.mark.parametrize("seed", range(12))
def test_a_helper_computes_what_its_source_computes_and_is_called_as_it_allows(seed):
    rng = random.Random(seed)
    helper = Helper.draw("lantern tariff", "pkg/mod.py", MadeUpNames(rng), rng)
    names = run(helper.source())
    assert helper.module == "pkg.mod"
    assert names[helper.name].__doc__.startswith("Return the lantern tariff of ")
    for _ in range(50):
        values = [rng.randrange(1000) for _ in range(3)]
        called = eval(helper.call([str(value) for value in values]), names)  # noqa: S307 - our own code
        assert called == helper(*values)
    if helper.positional < 3:
        with pytest.raises(TypeError):
            names[helper.name](1, 2, 3)


def test_a_chain_calls_from_the_first_function_to_the_last():
    excerpts = chain(["one", "two", "three"], "42", ["a.py", "b.py", "c.py"], random.Random(3))
    assert [type(excerpt) for excerpt in excerpts] == [Excerpt] * 3
    for excerpt, callee in zip(excerpts, ["two", "three", None], strict=True):
        called = [node.func.id for node in ast.walk(ast.parse(excerpt.code)) if isinstance(node, ast.Call)
                  and isinstance(node.func, ast.Name)]  # fmt: skip
        assert called == ([callee] if callee else [])
    assert "42" in excerpts[-1].code


def test_subjects_differ():
    assert len(set(subjects(500, random.Random(0)))) == 500
