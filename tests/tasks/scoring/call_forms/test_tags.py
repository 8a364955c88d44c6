from __future__ import annotations

import pytest

from kveval.tasks.scoring.call_forms.tags import tagged_calls

QWEN = "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"
GLM = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"
INVOKE = '<invoke name="f">\n<parameter name="a">{}</parameter>\n</invoke>'
DEEPSEEK = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">{}</｜DSML｜parameter></｜DSML｜invoke>'
FORMS = [QWEN, GLM, INVOKE, DEEPSEEK]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("5", "integer", 5), ("5", "string", "5"), ("5", None, 5), ("Oslo", "string", "Oslo"), ("Oslo", None, "Oslo"),
        ("Oslo", "integer", "Oslo"), ("[1, 2]", "array", [1, 2]), ("true", "boolean", True), ("True", "boolean", True),
        ("None", None, None), ("{'b': 1}", "dict", {"b": 1}), ("null", "string", "null"), ("a\nb", "string", "a\nb"),
        ("a < b", "string", "a < b"), ("", "string", ""),
    ],
)  # fmt: skip
def test_the_declared_type_decides_what_a_value_is(form: str, written: str, kind: str | None, value: object) -> None:
    kinds = {"f": {"a": kind}} if kind else {}
    assert tagged_calls(form.format(written), kinds) == [{"name": "f", "arguments": {"a": value}}]


@pytest.mark.parametrize("form", FORMS)
def test_several_calls_keep_their_order(form: str) -> None:
    text = "\n".join(form.format(n) for n in (1, 2, 3))
    assert [call["arguments"]["a"] for call in tagged_calls(text, {}) or ()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("no function", []),
        ('<function=f>{"a": 1}</function>', []),
        ("<tool_call>f\n</tool_call>", [{"name": "f", "arguments": {}}]),
        ('<invoke name="f">5</invoke>', None),
        ("<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>", None),
    ],
)
def test_what_is_no_tag_of_a_call(text: str, calls: object) -> None:
    assert tagged_calls(text, {}) == calls


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["<function=f>", '<invoke name="f">', "<tool_call>f", "<parameter=a>", "<｜a｜"])
def test_a_degenerate_output_is_read_in_little_time(piece: str) -> None:
    assert not tagged_calls(piece * 5_000, {})
