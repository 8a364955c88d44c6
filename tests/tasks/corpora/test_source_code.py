from __future__ import annotations

import ast
import random

import pytest

from kveval.tasks.assembly.filler import Filler
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.corpora.source_code import CodeBase, code_base

METHODS = "".join(f"    def method_{i}(self):\n        return {'x' * 90!r}\n\n" for i in range(12))
SOURCE = f'''import os


@cache
def first(a):
    """One."""
    return a



VALUE = 1


class Short(Base):
    def inner(self):
        pass


class Long:
    size = 1

{METHODS}'''


@pytest.fixture(scope="module")
def small():
    return CodeBase({"pkg/one.py": SOURCE, "pkg/two.py": "def first(b):\n    return b\n"})


def test_a_file_is_cut_into_whole_parts(small):
    first = [excerpt.text() for excerpt in small.excerpts[:6]]
    assert first[0] == "# file: pkg/one.py\nimport os"
    assert first[1] == '# file: pkg/one.py\n@cache\ndef first(a):\n    """One."""\n    return a'
    assert first[2] == "# file: pkg/one.py\nVALUE = 1"
    assert first[3] == "# file: pkg/one.py\nclass Short(Base):\n    def inner(self):\n        pass"
    assert first[4] == "# file: pkg/one.py, class Long\nclass Long:\n    size = 1"
    assert first[5].startswith("# file: pkg/one.py, class Long\n    def method_0(self):\n")


def test_nothing_but_blank_lines_is_lost(small):
    lines = [line for excerpt in small.excerpts[:-1] for line in excerpt.code.split("\n") if line]
    assert lines == [line for line in SOURCE.split("\n") if line]


def test_definitions_know_their_owner_and_whether_their_name_is_unique(small):
    found = {(definition.name, definition.excerpt.owner): definition for definition in small.definitions}
    assert not found["first", None].unique
    assert found["Short", None].unique
    assert found["Short", None].is_class
    assert found["inner", "Short"].source() == "def inner(self):\n    pass"
    assert (
        found["inner", "Short"].with_source("def other(self):\n    pass").code == "    def other(self):\n        pass"
    )


def test_the_pinned_package_is_read_whole():
    base = code_base()
    assert len(base.paths) > 600
    assert len(base.excerpts) > 9000
    assert len({excerpt.path for excerpt in base.excerpts}) > 600
    for definition in random.Random(0).sample(base.definitions, 300):
        assert isinstance(definition.tree(), ast.ClassDef) == definition.is_class
        assert definition.tree().name == definition.name


def test_filler_is_code_in_whole_lines_at_whole_excerpts():
    stand_in = PromptFormat.stand_in()
    run = Filler(code_base(), stand_in.tokenizer).draw(random.Random(0), 4000, [], opens_context=True)
    assert stand_in.decode(run.ids).startswith("# file: django/")
