"""What `kveval load --json` prints."""

from __future__ import annotations

import json

from support.loads import load_document

from kveval.report.documents.load import LOAD_SUMMARY_VERSION, load_summary


def test_one_row_for_each_level_and_variant() -> None:
    document = load_summary(load_document(bf16=[100.0] * 6, fp8=[50.0] * 4))
    json.dumps(document, allow_nan=False)
    assert document["version"] == LOAD_SUMMARY_VERSION
    assert [(row["variant"], row["completed"], row["requests"]) for row in document["rows"]] == [
        ("bf16", 6, 6), ("fp8", 4, 6),
    ]  # fmt: skip
    assert document["rows"][1]["outcomes"] == {"completed": 4, "http_500": 2}
    assert document["rows"][1]["ratios"]["ttft"] == 0.5
    assert document["variants"]["fp8"]["findings"][0]["code"] == "load_failures"


def test_what_was_not_measured_is_null() -> None:
    row = load_summary(load_document(bf16=[]))["rows"][0]
    assert row["ttft_ms"] == {"n": 0, "median": None, "p95": None}
    assert (row["running"], row["preemptions"], row["ratios"]) == (None, None, None)
