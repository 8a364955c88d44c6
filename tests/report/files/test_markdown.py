from __future__ import annotations

from dataclasses import replace

import pytest

from kveval.errors import IncomparableError
from kveval.judge.gate.gate import Gate
from kveval.report.files.markdown import MOST_BYTES, code, markdown, markdown_of_error, plain


def strip_code(line: str) -> str:
    """`line` without its code spans, as CommonMark finds them."""
    kept, position = "", 0
    while position < len(line):
        if line[position] != "`":
            kept += line[position]
            position += 1
            continue
        fence = len(line[position:]) - len(line[position:].lstrip("`"))
        start = position + fence
        end = start
        while True:
            end = line.find("`" * fence, end)
            if end < 0:
                return kept + line[position:]
            run = len(line[end:]) - len(line[end:].lstrip("`"))
            if run == fence:
                break
            end += run
        position = end + fence
    return kept


def test_the_table_has_the_same_columns_in_every_row(gates: dict[str, Gate]) -> None:
    rows = [line for line in markdown(gates["judged"]).splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {7, 11}


def test_hostile_text_stays_text(gates: dict[str, Gate]) -> None:
    text = markdown(gates["judged"])
    outside = "\n".join(strip_code(line) for line in text.splitlines())
    assert "<script" not in outside
    assert "<img" not in outside
    assert "](https" not in outside
    assert "https://" not in outside
    assert "@everyone" not in outside.replace("<!-- -->@", "")
    assert "\n# heading" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    text.encode("utf-8")


def test_it_says_emulated(gates: dict[str, Gate]) -> None:
    text = markdown(gates["judged"])
    assert "no memory saved" in text
    assert text.count("int8 (emulated)") + text.count("**int8** (emulated") >= 3


def test_summary_stays_small_and_starts_with_the_worst(gates: dict[str, Gate]) -> None:
    text = markdown(gates["judged"])
    assert text.index("❌ regression") < text.index("✅ pass")
    long = markdown(replace(gates["judged"], notes=gates["judged"].notes * 200))
    assert MOST_BYTES - 10_000 < len(long.encode()) < 60_000
    assert "verdict.json has all of it" in long


def test_an_undecided_run_that_may_pass_says_so(gates: dict[str, Gate]) -> None:
    assert "Exit code 0 (the policy allows undecided)." in markdown(gates["allowed"])


def test_a_gate_that_could_not_judge_says_why() -> None:
    text = markdown_of_error(IncomparableError("other <samples>"))
    assert text.startswith("## ⛔ KV cache gate: incomparable\n\nother &#60;samples&#62;\n")
    assert "Exit code 4. Nothing was judged." in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a|b", "a&#124;b"), ("<b>", "&#60;b&#62;"), ("a\nb", "a b"), ("x_y", "x&#95;y"), ("`", "&#96;")],
)
def test_plain_disarms(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["plain", "a ` b", "``` fence", "`", "ends in `"])
def test_code_spans_hold_any_backticks(text: str) -> None:
    assert strip_code(f"before {code(text)} after") == "before  after"
