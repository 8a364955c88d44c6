"""A page that loads nothing and shows text as text."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from numpy.random import Generator
from support.make_run import make_run, make_samples, scored
from support.pages import page_of

from kveval.run.records import Outcome, SampleRow

HOSTILE = (
    "</script><script>alert(1)</script></style></pre>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }} "
    "\u202egnirts\u202c\x00\x07\x1b[31m"
)


def hostile(row: SampleRow, rng: Generator) -> tuple[Outcome, str]:
    return ("wrong", HOSTILE) if rng.random() < 0.5 else ("correct", row.doc["answers"][0])


@pytest.fixture
def samples() -> list[SampleRow]:
    return make_samples(tasks={"niah_multikey": "needle", "qa": "qa"}, haystacks=8, questions=3)


def test_nothing_is_loaded_or_run(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": hostile})
    text, page = page_of(path)
    tags = [tag for tag, _ in page.tags]
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(tags)
    assert tags.count("script") == 1
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")]
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in text
    css, script = (re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script"))
    assert css is not None
    assert script is not None
    digests = [base64.b64encode(hashlib.sha256(part[1].encode()).digest()).decode() for part in (css, script)]
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"\beval\(|innerHTML|new Function", script[1])


def test_hostile_text_is_shown_and_nothing_else(tmp_path: Path, samples: list[SampleRow]) -> None:
    doc = {"question": HOSTILE, "answers": [HOSTILE], "excerpts": [HOSTILE * 20], "absent": False}
    samples = [row.model_copy(update={"doc": doc}) for row in samples]
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(1.1), "fp8": hostile},
        variants={
            "fp8": {
                "status": "stopped",
                "reason": HOSTILE,
                "facts": {"storage": "native", "engine_version": HOSTILE},
                "findings": [{"level": "error", "code": "x", "message": HOSTILE}],
            }
        },
        manifest={"config": {HOSTILE: HOSTILE}, "command": [HOSTILE], "versions": {"v": HOSTILE}},
    )
    text, page = page_of(path)
    assert text.count("<script") == 1
    assert not re.search(r"<img|onerror=(?!alert\(2\)&gt;)", text)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text)
    assert "⟨U+202E⟩gnirts⟨U+202C⟩⟨U+0000⟩⟨U+0007⟩⟨U+001B⟩[31m" in page.words
    assert "{{ 7 * 7 }}" in page.words


def test_lone_surrogates_in_the_manifest_do_not_crash(tmp_path: Path, samples: list[SampleRow]) -> None:
    answers = {"bf16": scored(0.9), "fp8": scored(0.8)}
    path = make_run(tmp_path / "run", samples=samples, answers=answers, manifest={"config": {"name": "SURROGATE"}})
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("SURROGATE", "\\ud800"))
    _, page = page_of(path)
    assert "\\uD800" in page.words
