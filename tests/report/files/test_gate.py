"""junit.xml and summary.md: what CI shows, whatever models and engines wrote."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.gate.gate import gate
from kveval.report.files.junit import junit
from kveval.report.files.markdown import MOST_BYTES, code, markdown, plain
from kveval.report.files.verdict import verdict
from kveval.run.records import Outcome
from kveval.run.samples import SampleRow
from kveval.run.storage import to_json

HOSTILE = (
    "</failure></testcase><script>alert(1)</script>]]>&amp;&#x0;\x00\x1b[31m\u202e\ufffe"
    "\n\n# heading\n```\n| a | b |\n<img src=x onerror=alert(1)> [click](https://evil.example) "
    "@everyone ``` www.evil.example"
)


def hostile(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str]:
    return ("wrong", HOSTILE) if rng.random() < 0.3 else ("correct", row.doc["answers"][0])


def parse(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 our own output


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("runs")
    samples = make_samples(tasks={"niah_multikey": "needle", "qa<b>": "qa|x"}, haystacks=20)
    emulated = {"storage": "emulated", "emulation": "int8 per_token_head (emulated)", "engine_version": "0.32.0"}
    judged = make_run(
        folder / "run",
        samples=samples,
        answers={"bf16": scored(0.9), "same": scored(0.9), "int8": hostile, "bf16-aa": scored(0.9)},
        variants={
            "int8": {
                "facts": emulated,
                "findings": [{"level": "warning", "code": "x", "message": f"odd {HOSTILE}"}],
            },
            "bf16-aa": {"role": "aa", "of": "bf16"},
            "fp8": {"status": "refused", "reason": f"no {HOSTILE}"},
        },
        manifest={"status": "incomplete"},
    )
    few = make_run(
        folder / "few", samples=make_samples(haystacks=7, questions=2), answers={"bf16": scored(0.9), "b": scored(0.9)}
    )
    return {
        "judged": verdict(gate(judged)),
        "blocked": verdict(gate(few)),
        "allowed": verdict(gate(few, overrides={"undecided": "allow"})),
    }


def cases(document: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    return {
        (case.get("classname", ""), case.get("name", "")): [child.tag for child in case]
        for case in parse(junit(document)).iter("testcase")
    }


def test_junit_tells_loss_from_outage(documents: dict[str, dict[str, Any]]) -> None:
    found = cases(documents["judged"])
    assert found["kveval.quantization.int8", "verdict"] == ["failure"]
    assert found["kveval.quantization.int8", "overall"] == ["failure"]
    assert found["kveval.quantization.fp8", "verdict"] == ["error"]
    assert found["kveval.quantization.fp8", "overall"] == ["skipped"]
    assert found["kveval.quantization.same", "verdict"] == ["system-out"]
    assert cases(documents["blocked"])["kveval.quantization.b", "verdict"] == ["failure"]
    assert cases(documents["allowed"])["kveval.quantization.b", "verdict"] == ["skipped"]


def test_junit_counts_add_up(documents: dict[str, dict[str, Any]]) -> None:
    root = parse(junit(documents["judged"]))
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(key, "0")) == len(list(root.iter(tag)))
        assert int(root.get(key, "0")) == sum(int(suite.get(key, "0")) for suite in root.iter("testsuite"))


def test_every_output_says_emulated(documents: dict[str, dict[str, Any]]) -> None:
    document = documents["judged"]
    assert "int8 (emulated)" in junit(document)
    text = markdown(document)
    assert "no memory saved" in text
    assert text.count("int8 (emulated)") + text.count("**int8** (emulated") >= 3
    check = next(check for check in document["checks"] if check["variant"] == "int8")
    assert check["emulated"] is True
    assert any(note["code"] == "emulated" for note in document["notes"])


def test_hostile_text_stays_text(documents: dict[str, dict[str, Any]]) -> None:
    text = markdown(documents["judged"])
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
    parse(junit(documents["judged"]))


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


def test_the_table_has_the_same_columns_in_every_row(documents: dict[str, dict[str, Any]]) -> None:
    rows = [line for line in markdown(documents["judged"]).splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {7, 11}


def test_summary_stays_small_and_starts_with_the_worst(documents: dict[str, dict[str, Any]]) -> None:
    document = json.loads(to_json(documents["judged"]))
    text = markdown(document)
    assert text.index("❌ regression") < text.index("✅ pass")
    check = next(check for check in document["checks"] if check["variant"] == "int8")
    check["flips"] = [{**check["flips"][0], "question": "⟨" * 2000}] * 500
    document["notes"] *= 200
    long = markdown(document)
    assert len(long.encode()) < 60_000
    assert len(long.encode()) > MOST_BYTES - 10_000
    assert "verdict.json has all of it" in long


def test_flips_are_excerpts(documents: dict[str, dict[str, Any]]) -> None:
    check = next(check for check in documents["judged"]["checks"] if check["variant"] == "int8")
    assert 0 < len(check["flips"]) <= 20
    assert all(len(flip["after"]) < 200 for flip in check["flips"])
    assert check["flips"][0]["direction"] == "lost"


def test_verdict_is_strict_and_deterministic(documents: dict[str, dict[str, Any]]) -> None:
    for document in documents.values():
        text = to_json(document)
        assert json.loads(text) == document or json.loads(text)["verdict"] == document["verdict"]
        assert "NaN" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a|b", "a&#124;b"), ("<b>", "&#60;b&#62;"), ("a\nb", "a b"), ("x_y", "x&#95;y"), ("`", "&#96;")],
)
def test_plain_disarms(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["plain", "a ` b", "``` fence", "`", "ends in `"])
def test_code_spans_hold_any_backticks(text: str) -> None:
    assert strip_code(f"before {code(text)} after") == "before  after"
