"""A run is compared with a blessed file only if both asked the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.judge_command import document, kveval
from support.make_run import GOOD, make_run, make_samples, scored


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": make_samples(haystacks=29)}, "20 questions were asked in only one of them"),
        ({"samples": make_samples(tasks={"qa": "qa"})}, "only one of them asked task 'niah_multikey'"),
        ({"manifest": {"inputs": {"model/config.json": "1" * 64}}}, "the model differs (model/config.json)"),
        ({"manifest": {"inputs": {"model": "1" * 64}}}, "the model differs"),
        ({"manifest": {"inputs": {"model": "0" * 64, "tokenizer": "2"}}}, None),
        ({"manifest": {"sampling": {"temperature": 1.0}}}, "'temperature' differs: 0.0 and 1.0"),
        ({"answers": {"bf16": scored(0.9)}}, "variant 'same' was blessed and not asked again"),
    ],
)
def test_other_questions_are_incomparable(
    tmp_path: Path, blessed: Path, changes: dict[str, Any], message: str | None
) -> None:
    path = make_run(tmp_path / "tonight", **{"answers": GOOD, **changes})
    result = kveval("gate", path, "--against", blessed)
    if message is None:
        assert result.code == 0
        return
    assert result.code == 4
    assert message in result.text
    assert document(path)["verdict"] == "incomparable"


def test_another_scorer_is_incomparable(tmp_path: Path) -> None:
    inputs = [{"model": "0" * 64, "task/niah_multikey": digit * 64} for digit in "12"]
    before = make_run(tmp_path / "before", answers=GOOD, manifest={"inputs": inputs[0]})
    assert kveval("bless", before, "--out", tmp_path / "b.json").code == 0
    path = make_run(tmp_path / "tonight", answers=GOOD, manifest={"inputs": inputs[1]})
    result = kveval("gate", path, "--against", tmp_path / "b.json")
    assert result.code == 4
    assert "a task or its scorer differs (task/niah_multikey)" in result.text


def test_other_prompts_are_incomparable(tmp_path: Path, blessed: Path) -> None:
    first, *rest = make_samples()
    samples = [first.model_copy(update={"prompt_sha256": "0" * 64}), *rest]
    path = make_run(tmp_path / "tonight", samples=samples, answers=GOOD)
    result = kveval("gate", path, "--against", blessed)
    assert result.code == 4
    assert "the prompts of the same questions differ" in result.text


def test_an_edited_blessed_file_is_refused(tmp_path: Path, blessed: Path) -> None:
    path = make_run(tmp_path / "tonight", answers=GOOD)
    text = blessed.read_text()
    blessed.write_text(text.replace('["wrong"', '["correct"', 1))
    assert blessed.read_text() != text
    result = kveval("gate", path, "--against", blessed)
    assert result.code == 2
    assert "was changed since it was blessed" in result.text
