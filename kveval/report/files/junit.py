"""``junit.xml``: a loss is a failure, a broken run an error, and an undecided row skipped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from kveval.errors import KvevalError
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.verdict import Verdict
from kveval.judge.gate.check import Check
from kveval.judge.gate.gate import Gate
from kveval.report.documents.verdict import error_word
from kveval.report.endpoints import beside_labels, contradiction, shown_label
from kveval.report.labels import difference_label, emulated_suffix, row_word, with_word
from kveval.report.text import visible

_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case. `problem` is the JUnit element, None for a pass; `kind` is its type and `why` its message.

    `reason_code` becomes a property. None if the case has no verdict.
    """

    class_name: str
    name: str
    problem: str | None
    kind: str
    why: str
    reason_code: str | None = None


def junit(gate: Gate) -> str:
    """Returns the gate's decision as JUnit XML: one suite per check, one case per row."""
    return _xml([(_suite_name(gate, check), list(_cases(check))) for check in gate.checks])


def junit_of_error(error: KvevalError) -> str:
    """Returns the XML of a gate that could not judge: one case with the reason."""
    return _xml([("gate", [_Case("kveval.gate", "verdict", "error", error_word(error), str(error))])])


def _xml(suites: list[tuple[str, list[_Case]]]) -> str:
    root = ET.Element("testsuites", {"name": "kveval gate", **_counts([case for _, cases in suites for case in cases])})
    for name, cases in suites:
        suite = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(cases)})
        for case in cases:
            names = {"classname": _text(case.class_name), "name": _text(case.name)}
            element = ET.SubElement(suite, "testcase", names)
            if case.reason_code:
                properties = ET.SubElement(element, "properties")
                ET.SubElement(properties, "property", {"name": "reason_code", "value": case.reason_code})
            if case.problem:
                ET.SubElement(element, case.problem, {"type": case.kind, "message": _text(case.why)})
            else:
                ET.SubElement(element, "system-out").text = _text(case.why)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite_name(gate: Gate, check: Check) -> str:
    against = f" against {check.against}" if check.against else ""
    return f"{check.kind}: {check.variant}{emulated_suffix(gate.run, check.variant)}{against}"


def _cases(check: Check) -> Iterator[_Case]:
    class_name = f"kveval.{check.kind.replace(' ', '_')}.{check.variant}"
    problem = {
        "pass": None,
        "regression": "failure",
        "infrastructure": "error",
        "undecided": "failure" if check.blocks else "skipped",
    }[check.state]
    yield _Case(class_name, "verdict", problem, check.state, with_word(check.state, check.reason), check.reason_code)
    for row in check.comparisons:
        if row.verdict is not None:
            yield _row_case(class_name, row, row.verdict, is_broken=check.state == "infrastructure")


def _row_case(class_name: str, row: Comparison, verdict: Verdict, *, is_broken: bool) -> _Case:
    # What a broken run lost is not a loss of quality.
    does_not_block = is_broken or (row.is_advisory and verdict.word == "fail")
    problem = "skipped" if does_not_block else {"fail": "failure", "undecided": "skipped", "pass": None}[verdict.word]
    kind = "regression" if verdict.word == "fail" else verdict.word
    score = f"{shown_label(row)} " if row.expected else ""
    size = f"{row.difference.n} of {row.asked} questions, {score}{difference_label(row.difference)} points"
    size += "".join(f"; beside it: {label}" for label in [*beside_labels(row), *filter(None, [contradiction(row)])])
    why = f"{row_word(row)}: {verdict.reason} ({size})"
    return _Case(class_name, str(row.scope), problem, kind, why, verdict.reason_code)


def _counts(cases: list[_Case]) -> dict[str, str]:
    problems = Counter(case.problem for case in cases)
    return {
        "tests": str(len(cases)),
        "failures": str(problems["failure"]),
        "errors": str(problems["error"]),
        "skipped": str(problems["skipped"]),
    }


def _text(text: str) -> str:
    """Returns `text` with unseen characters spelled out, and those that XML cannot hold replaced."""
    return _NOT_XML.sub("\ufffd", visible(text))
