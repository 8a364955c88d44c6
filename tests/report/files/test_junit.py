from __future__ import annotations

from xml.etree import ElementTree as ET

from kveval.errors import IncomparableError
from kveval.judge.gate.gate import Gate
from kveval.report.files.junit import junit, junit_of_error


def parse(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 our own output


def cases(decision: Gate) -> dict[tuple[str, str], list[str]]:
    return {
        (case.get("classname", ""), case.get("name", "")): [child.tag for child in case if child.tag != "properties"]
        for case in parse(junit(decision)).iter("testcase")
    }


def test_the_reason_code_of_a_verdict_is_a_property_of_its_case(gates: dict[str, Gate]) -> None:
    codes = {
        (case.get("classname"), case.get("name")): named.get("value")
        for case in parse(junit(gates["judged"])).iter("testcase")
        for named in case.iter("property")
    }
    assert codes["kveval.quantization.int8", "overall"] == "loss_beyond_margin"
    assert codes["kveval.quantization.same", "verdict"] == "loss_excluded"


def test_junit_tells_loss_from_outage(gates: dict[str, Gate]) -> None:
    found = cases(gates["judged"])
    assert found["kveval.quantization.int8", "verdict"] == ["failure"]
    assert found["kveval.quantization.int8", "overall"] == ["failure"]
    assert found["kveval.quantization.fp8", "verdict"] == ["error"]
    assert found["kveval.quantization.fp8", "overall"] == ["skipped"]
    assert found["kveval.quantization.same", "verdict"] == ["system-out"]
    assert cases(gates["blocked"])["kveval.quantization.b", "verdict"] == ["failure"]
    assert cases(gates["allowed"])["kveval.quantization.b", "verdict"] == ["skipped"]


def test_junit_counts_add_up(gates: dict[str, Gate]) -> None:
    root = parse(junit(gates["judged"]))
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(key, "0")) == len(list(root.iter(tag)))
        assert int(root.get(key, "0")) == sum(int(suite.get(key, "0")) for suite in root.iter("testsuite"))


def test_hostile_text_gives_valid_xml(gates: dict[str, Gate]) -> None:
    text = junit(gates["judged"])
    assert "\x1b" not in text
    assert "int8 (emulated)" in text
    parse(text)


def test_a_gate_that_could_not_judge_is_one_error() -> None:
    (case,) = parse(junit_of_error(IncomparableError("other samples"))).iter("testcase")
    assert [(child.tag, child.get("type"), child.get("message")) for child in case] == [
        ("error", "incomparable", "other samples")
    ]
