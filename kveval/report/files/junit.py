"""``junit.xml``: a loss of quality is a failure, a broken run an error, what stays open is skipped unless it blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from kveval.report.rows import difference_label
from kveval.report.text import visible

_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class _Case:
    """`problem`: the JUnit element, "failure", "error", "skipped" or None; `kind`: its type; `why`: its message."""

    class_name: str
    name: str
    problem: str | None
    kind: str
    why: str


def junit(document: dict[str, Any]) -> str:
    """What `kveval.report.files.verdict` returns, as JUnit XML: one suite per check, one case per row."""
    suites = [(_suite_name(check), list(_cases(check))) for check in document["checks"]]
    if document["reason"] is not None:
        suites.append(("gate", [_Case("kveval.gate", "verdict", "error", document["verdict"], document["reason"])]))
    root = ET.Element("testsuites", {"name": "kveval gate", **_counts([case for _, cases in suites for case in cases])})
    for name, cases in suites:
        suite = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(cases)})
        for case in cases:
            element = ET.SubElement(
                suite, "testcase", {"classname": _text(case.class_name), "name": _text(case.name)}
            )  # fmt: skip
            if case.problem:
                ET.SubElement(element, case.problem, {"type": case.kind, "message": _text(case.why)})
            else:
                ET.SubElement(element, "system-out").text = _text(case.why)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite_name(check: dict[str, Any]) -> str:
    emulated = " (emulated)" if check["emulated"] else ""
    against = f" against {check['against']}" if check["against"] else ""
    return f"{check['kind']}: {check['variant']}{emulated}{against}"


def _cases(check: dict[str, Any]) -> Iterator[_Case]:
    class_name = f"kveval.{check['kind'].replace(' ', '_')}.{check['variant']}"
    state = check["verdict"]
    problems = {
        "pass": None,
        "regression": "failure",
        "infrastructure": "error",
        "undecided": "failure" if check["blocks"] else "skipped",
    }
    yield _Case(class_name, "verdict", problems[state], state, f"{state}: {check['reason']}")
    for row in check["rows"]:
        problem = {"fail": "failure", "undecided": "skipped", "pass": None}[row["verdict"]]
        if state == "infrastructure":
            # What a broken run lost is no loss of quality.
            problem = "skipped"
        kind = {"fail": "regression"}.get(row["verdict"], row["verdict"])
        size = f"{row['n']} of {row['asked']} samples, {difference_label(row)} points"
        yield _Case(class_name, row_name(row), problem, kind, f"{row['verdict']}: {row['reason']} ({size})")


def row_name(row: dict[str, Any]) -> str:
    """'overall', '8,192 tokens', 'needle', 'niah_single at 8,192 tokens'."""
    what = row["task"] or row["family"]
    length = f"{row['context_length']:,} tokens" if row["context_length"] is not None else None
    return " at ".join(part for part in (what, length) if part) or "overall"


def _counts(cases: list[_Case]) -> dict[str, str]:
    problems = Counter(case.problem for case in cases)
    return {
        "tests": str(len(cases)),
        "failures": str(problems["failure"]),
        "errors": str(problems["error"]),
        "skipped": str(problems["skipped"]),
    }


def _text(text: str) -> str:
    """`text` with what is unseen spelled out and what XML cannot hold replaced."""
    return _NOT_XML.sub("\ufffd", visible(text))
