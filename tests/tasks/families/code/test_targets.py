from __future__ import annotations

import ast
import random
import textwrap

import pytest

from kveval.tasks.corpora.source_code import CodeBase, code_base
from kveval.tasks.families.code import targets
from kveval.tasks.families.code.made_up import MadeUpNames

SOURCE = '''
@lru_cache
def open_parcel(self, sender, weight=None, *, colour="red"):
    """
    Take what came by mail today and look at it.

    Then close it.
    """
    if weight is None:
        weight = sender.weight
    parcel = self.find(sender=sender, weight=weight)
    return parcel


class ParcelStore(Store):
    """Where they are kept until somebody comes for them."""

    shelf = 3
    colour = "a colour that nobody has asked for"
'''


@pytest.fixture
def made_up():
    return MadeUpNames(random.Random(0))


@pytest.fixture(scope="module")
def definitions():
    return {definition.name: definition for definition in CodeBase({"a/b.py": SOURCE}).definitions}


def test_a_description_goes_with_a_function_without_docstring_and_name(definitions, made_up):
    target = targets.described(definitions["open_parcel"], made_up)
    assert target.about == "Take what came by mail today and look at it."
    assert f"def {target.answer}(self, sender" in target.excerpt.code
    assert "mail" not in target.excerpt.code
    assert "open_parcel" not in target.excerpt.code
    assert "def open_parcel(" in target.original


def test_a_default_value_is_replaced(definitions, made_up):
    target = targets.default_value(definitions["open_parcel"], made_up)
    assert target.about == "default value of the parameter colour of the function open_parcel"
    assert f'colour="{target.answer}"' in target.excerpt.code
    assert '"red"' not in target.excerpt.code


def test_a_parent_class_is_replaced(definitions, made_up):
    target = targets.parent_class(definitions["ParcelStore"], made_up)
    assert f"class ParcelStore({target.answer}):" in target.excerpt.code
    assert targets.parent_class(definitions["open_parcel"], made_up) is None


def test_a_decorator_is_replaced(definitions, made_up):
    target = targets.decorator(definitions["open_parcel"], made_up)
    assert target.excerpt.code.startswith(f"@{target.answer}\ndef open_parcel(")


def test_a_signature_is_renamed_together_with_its_body(definitions, made_up):
    target = targets.signature(definitions["open_parcel"], made_up)
    node = ast.parse(target.excerpt.code).body[0]
    assert f"{ast.unparse(node.args)}):" == target.answer
    assert target.about == f"def {node.name}("
    self, sender, weight = (arg.arg for arg in node.args.args)
    assert self == "self"
    assert f"self.find(sender={sender}, weight={weight})" in target.excerpt.code
    assert f"{weight} = {sender}.weight" in target.excerpt.code


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (targets.described, 300),
        (targets.default_value, 150),
        (targets.parent_class, 300),
        (targets.decorator, 400),
        (targets.signature, 1000),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_code_base_has_enough_of_each_and_all_are_code(make, least):
    made = [
        target for definition in code_base().definitions if (target := make(definition, MadeUpNames(random.Random(0))))
    ]
    assert len(made) >= least
    for target in made:
        ast.parse(textwrap.dedent(target.excerpt.code))
        assert target.excerpt.code.count(target.answer.split("(")[0].rstrip("):")) >= 1 or make is targets.signature


def test_a_name_is_not_made_of_the_description():
    for seed in range(30):
        made_up = MadeUpNames(random.Random(seed))
        for definition in random.Random(seed).sample(code_base().definitions, 200):
            target = targets.described(definition, made_up)
            if target is not None:
                assert not set(target.answer.split("_")) & targets.words(target.about)
                assert definition.name not in target.about


def test_replacing_keeps_the_rest():
    assert targets.replaced("abcdef", [(1, 2, "XX"), (4, 6, "")]) == "aXXcd"
