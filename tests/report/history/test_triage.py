from __future__ import annotations

from pathlib import Path

from support.make_run import Answer, losing, make_run, scored

from kveval.report.history.nights import build_reports


def night(path: Path, day: int, fp8: Answer, version: str) -> Path:
    return make_run(
        path,
        answers={"bf16": scored(0.9), "fp8": fp8},
        variants={"bf16": {"facts": {"storage": "native", "engine_version": version}}},
        manifest={"created": f"2026-01-0{day}T03:04:05Z"},
    )


def test_it_says_since_when_a_variant_fails_and_what_changed_then(tmp_path: Path) -> None:
    runs = [
        night(tmp_path / "mon", 1, scored(0.9), "0.32.0"),
        night(tmp_path / "tue", 2, losing(0.3), "0.33.0"),
        night(tmp_path / "wed", 3, losing(0.3), "0.33.0"),
    ]
    page = build_reports(runs)[-1][1].read_text(encoding="utf-8")
    assert "fp8: failing since 2026-01-02 (tue); engine changed 2026-01-02 (0.32.0 to 0.33.0)." in page
    assert "fp8, overall: moved from +0.0 to -" in page
    assert "on 2026-01-02 (tue)" in page


def test_equal_nights_say_that_nothing_changed(tmp_path: Path) -> None:
    runs = [night(tmp_path / name, day, scored(0.9), "0.32.0") for day, name in ((1, "mon"), (2, "tue"))]
    assert "no change of level is shown" in build_reports(runs)[-1][1].read_text(encoding="utf-8")
