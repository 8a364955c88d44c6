"""A load measurement in a terminal."""

from __future__ import annotations

from support.loads import load_document
from support.printed import printed

from kveval.report.terminal.load import load_plan_table, load_table


def test_a_row_for_each_variant_with_its_ratio_and_what_went_wrong() -> None:
    text = printed(load_table(load_document(bf16=[100.0] * 6, fp8=[50.0] * 5)), width=80)
    bf16, fp8 = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("bf16", "fp8"))
    assert bf16.split() == ["bf16", "6/6", "100", "100", "100.0", "100.0", "50.0", "?/?"]
    assert fp8.split() == ["fp8", "5/6", "50", "50", "50.0", "50.0", "50.0", "1.00", "?/?"]
    assert "fp8  12 s from launch to first token" in text
    assert "warning: fp8 failed" in text


def test_a_plan_is_counted_before_anything_starts() -> None:
    row = {"level": "closed 1", "requests": 1000, "warmup_requests": 2, "prefill_tokens": 3, "output_tokens": 4}
    plan = {
        "levels": [row], "variants": [{"name": "bf16", "role": "baseline", "storage": "native"}],
        "engine_launches": 1, "requests": 1002, "prefill_tokens": 3, "output_tokens": 4, "max_model_len": 512,
    }  # fmt: skip
    text = printed(load_plan_table(plan))
    assert "closed 1" in text
    assert "1,002" in text
    assert "bf16 (baseline, native)" in text
