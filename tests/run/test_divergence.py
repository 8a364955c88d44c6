"""Readings survive the disk, and a file that is not one is refused before memory is taken for it."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kveval.errors import RunDirectoryError
from kveval.run.divergence import DivergenceFolder, DivergenceText, DivergenceTexts, Reading, ids_digest

ID = "0123456789abcdef"
TOKENS, KEPT = 5, 3


def reading(**changes: Any) -> Reading:
    ids = np.arange(TOKENS * KEPT, dtype=np.int32).reshape(TOKENS, KEPT)
    text = np.arange(TOKENS, dtype=np.int32)
    values = np.full(TOKENS, -1.5, np.float32)
    kept = np.full((TOKENS, KEPT), -2.5, np.float32)
    tail = np.log(1 - np.exp(kept).sum(axis=1))
    whole = Reading(text, ids, kept, values, tail, text, ids_digest(text, ids), np.array([0.5]))
    return replace(whole, **changes)


def members(run: Path) -> dict[str, bytes]:
    """Writes a good reading and returns the arrays of its file."""
    DivergenceFolder(run).write("bf16", ID, reading())
    with zipfile.ZipFile(run / "divergence" / "bf16" / f"{ID}.npz") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(run: Path, values: dict[str, bytes]) -> None:
    with zipfile.ZipFile(run / "divergence" / "bf16" / f"{ID}.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in values.items():
            archive.writestr(name, data)


def array_bytes(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def test_a_reading_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = DivergenceFolder(tmp_path)
    assert folder.read("bf16", ID) is None
    assert folder.size_bytes("bf16", ID) is None
    for name, written in (("bf16", reading()), ("fp8", reading(kept_ids=np.zeros((0, KEPT), np.int32)))):
        folder.write(name, ID, written)
        back = folder.read(name, ID)
        assert back is not None
        for field in fields(Reading):
            np.testing.assert_array_equal(getattr(back, field.name), getattr(written, field.name))
    assert sorted(path.name for path in (tmp_path / "divergence").rglob("*.*")) == [f"{ID}.npz"] * 2
    assert (folder.size_bytes("bf16", ID) or 0) > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"logprobs": np.zeros(TOKENS - 1, np.float32)},
        {"kept_logprobs": np.zeros(TOKENS, np.float32)},
        {"kept_logprobs": np.zeros((TOKENS, 0), np.float32), "kept_ids": np.zeros((0, 0), np.int32)},
        {"kept_ids": np.zeros((TOKENS, KEPT + 1), np.int32)},
        {"kept_ids": np.zeros((TOKENS, KEPT), np.int32)},
        {"ids_sha256": np.zeros(31, np.uint8)},
        {"seconds": np.zeros(2)},
        {"seconds": np.array([np.nan])},
        {"seconds": np.array([-1.0])},
        {"logprobs": np.full(TOKENS, 800, np.float32)},
    ],
)
def test_arrays_that_do_not_belong_together_are_no_reading(changes: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"shape|no tokens|ids_sha256|above 1|seconds"):
        reading(**changes)


def _lies_about_its_shape(whole: dict[str, bytes]) -> dict[str, bytes]:
    # A header that promises 4 TB must not allocate them.
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)})
    return whole | {"logprobs.npy": header.getvalue() + b"\0" * 20}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_lies_about_its_shape, "logprobs is float32 of shape"),
        (lambda whole: {k: v for k, v in whole.items() if k != "logprobs.npy"}, "logprobs.npy"),
        (lambda whole: whole | {"logprobs.npy": array_bytes(np.zeros(TOKENS))}, "logprobs is float64"),
        (lambda whole: whole | {"logprobs.npy": array_bytes(np.array([{}] * TOKENS))}, "logprobs is object"),
        (lambda whole: whole | {"logprobs.npy": whole["logprobs.npy"][:-1]}, "in 19 bytes"),
        (lambda whole: whole | {"logprobs.npy": b"not an array"}, "magic"),
        (lambda whole: whole | {"kept_logprobs.npy": array_bytes(np.zeros((2, 2), np.float32))}, "shape"),
    ],
)
def test_a_file_that_is_broken_or_made_to_harm_is_refused(tmp_path: Path, change: Any, words: str) -> None:
    write_members(tmp_path, change(members(tmp_path)))
    with pytest.raises(RunDirectoryError, match=words):
        DivergenceFolder(tmp_path).read("bf16", ID)


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    members(tmp_path)
    path = tmp_path / "divergence" / "bf16" / f"{ID}.npz"
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        with pytest.raises(RunDirectoryError, match="--resume"):
            DivergenceFolder(tmp_path).read("bf16", ID)


def test_an_array_that_unpacks_to_more_than_a_text_needs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members(tmp_path)
    monkeypatch.setattr("kveval.run.divergence._MOST_BYTES", 100)
    with pytest.raises(RunDirectoryError, match="larger than 100 bytes"):
        DivergenceFolder(tmp_path).read("bf16", ID)


def test_the_list_of_texts_is_validated(tmp_path: Path) -> None:
    folder = DivergenceFolder(tmp_path)
    assert folder.texts() == ()
    text = DivergenceText(
        text_id=ID, kind="text", source="a.txt", cluster=ID, context_length=9, prompt_tokens=9, tokens=4
    )
    folder.write_texts(DivergenceTexts(texts=(text,)))
    assert folder.texts() == (text,)
    with pytest.raises(ValueError, match="twice"):
        DivergenceTexts(texts=(text, text))
    path = tmp_path / "divergence" / "texts.json"
    for broken in ("", "{}", path.read_text().replace(ID, "../../etc"), path.read_text().replace("9", "-9")):
        path.write_text(broken)
        with pytest.raises(RunDirectoryError, match=r"texts\.json"):
            folder.texts()


def test_probabilities_that_do_not_add_up_to_1_are_no_reading() -> None:
    # A file in which someone lowered or raised a probability by hand.
    for by in (-0.5, 0.5):
        kept = np.full((TOKENS, KEPT), -2.5, np.float32)
        kept[2] += by
        with pytest.raises(ValueError, match="do not add up to 1"):
            reading(kept_logprobs=kept)
    without_numbers = np.full((TOKENS, KEPT), np.nan, np.float32)
    assert np.isnan(reading(kept_logprobs=without_numbers).kept_logprobs).all()


def test_why_there_is_no_reading_is_one_short_line_until_there_is_one(tmp_path: Path) -> None:
    folder = DivergenceFolder(tmp_path)
    assert folder.failure("fp8", ID) is None
    folder.write_failure("fp8", ID, "the engine\nwrote " + "a" * 10_000)
    why = folder.failure("fp8", ID)
    assert why is not None
    assert why.startswith("the engine wrote aaa")
    assert len(why) <= 1000
    folder.write("fp8", ID, reading())
    assert folder.failure("fp8", ID) is None


@pytest.mark.parametrize("changes", [{"tokens": 0}, {"tokens": 1 << 40}, {"context_length": -1}, {"kind": "other"}])
def test_a_text_that_cannot_be_is_named_with_its_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    row = {"text_id": ID, "kind": "text", "source": "a", "cluster": "a", "context_length": 1, "prompt_tokens": 1,
           "tokens": 1}  # fmt: skip
    (tmp_path / "divergence").mkdir()
    path = tmp_path / "divergence" / "texts.json"
    path.write_text(json.dumps({"texts": [row]}))
    assert len(DivergenceFolder(tmp_path).texts()) == 1
    path.write_text(json.dumps({"texts": [row | changes]}))
    with pytest.raises(RunDirectoryError, match=rf"texts\.json: texts\.0\.{next(iter(changes))}: .*--resume"):
        DivergenceFolder(tmp_path).texts()
