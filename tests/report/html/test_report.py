from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from numpy.random import Generator
from support.make_run import make_run, make_samples, scored

from kveval.report.html.report import build_report
from kveval.run.records import Outcome, SampleRow

HOSTILE = (
    "</script><script>alert(1)</script></style></pre>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }} "
    "\u202egnirts\u202c\x00\x07\x1b[31m"
)


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that are closed but not open."""

    VOID = frozenset({"meta", "br", "line", "circle", "rect", "path", "link", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def page_of(path: Path) -> tuple[str, Page]:
    text = build_report(path).read_text(encoding="utf-8")
    return text, Page(text)


def hostile(row: SampleRow, rng: Generator) -> tuple[Outcome, str]:
    return ("wrong", HOSTILE) if rng.random() < 0.5 else ("correct", row.doc["answers"][0])


def huge(row: SampleRow, _: Generator) -> tuple[Outcome, str]:
    return "wrong", "x" * 200_000


@pytest.fixture
def samples() -> list[SampleRow]:
    return make_samples(tasks={"niah_multikey": "needle", "qa": "qa"}, haystacks=8, questions=3)


def test_a_whole_report(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(
        tmp_path / "night",
        samples=samples,
        answers={
            "bf16": scored(0.9), "fp8": scored(0.4), "int8": scored(0.88), "again": scored(0.9),
            "control": scored(0.89),
        },
        variants={
            "fp8": {
                "facts": {"storage": "native", "attention_backend": "FLASHINFER", "kv_capacity_tokens": 200_000,
                          "kv_capacity_ratio": 2.0},
                "findings": [{"level": "warning", "code": "scales_1", "message": "K and V scales are all 1.0"}],
            },
            "int8": {
                "facts": {"storage": "emulated", "emulation": "int8 per_token_head", "kv_capacity_tokens": 100_000}
            },
            "again": {"role": "aa", "of": "bf16"},
            "control": {"role": "control", "of": "fp8"},
        },
    )  # fmt: skip
    _, page = page_of(path)
    words = page.words
    assert "fp8: fails at" in words
    assert "K and V scales are all 1.0" in words
    assert "emulated int8 per_token_head: no memory saved" in words
    assert "none gained here: emulated" in words
    assert "No memory is saved, and the kernel of a native cache is not tested" in words
    assert "2.00 times the baseline's tokens in the same memory: 200,000 against 100,000" in words
    assert "format or kernel" in words
    assert "Total = format + kernel" in words
    assert "The kernel causes the loss, not the format." in words
    assert "FLASHINFER (differs)" in words
    assert "What is the value of key" in words
    assert "kveval sweep demo" in words
    assert sum(tag == "details" and "data-id" in attributes for tag, attributes in page.tags) > 40
    assert sum(tag == "figure" for tag, _ in page.tags) == 3


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


def test_long_outputs_are_cut_and_counted(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=4, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": huge})
    text, page = page_of(path)
    assert len(text) < 250_000
    assert "196,000 more characters are in the run directory" in page.words


def test_a_refused_variant(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9)},
        variants={"fp8": {"status": "refused", "reason": "effective dtype is bfloat16", "facts": None}},
    )
    _, page = page_of(path)
    assert "fp8: not measured: fp8 refused: effective dtype is bfloat16." in page.words
    assert "not known: the engine was not started" in page.words
    assert "✓ pass" not in page.words


@pytest.mark.parametrize("status", ["running", "incomplete"])
def test_a_partial_run_says_so(tmp_path: Path, samples: list[SampleRow], status: str) -> None:
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9)},
        variants={"fp8": {"status": "planned", "facts": None}},
        manifest={"status": status, "finished": None},
    )
    _, page = page_of(path)
    assert f"Partial: this run is {status}" in page.words
    assert "fp8 not measured yet" in page.words


def test_an_empty_run(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=[], answers={"bf16": scored(1)})
    _, page = page_of(path)
    assert "No candidate was measured against bf16" in page.words


def test_one_sample(tmp_path: Path) -> None:
    samples = make_samples(lengths=(3000,), haystacks=1, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": scored(-0.1)})
    _, page = page_of(path)
    assert "only one haystack, so the error cannot be estimated" in page.words


def test_written_where_asked(tmp_path: Path, samples: list[SampleRow]) -> None:
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1)})
    assert build_report(path) == path / "report.html"
    assert build_report(path, tmp_path / "other.html") == tmp_path / "other.html"
    assert (tmp_path / "other.html").stat().st_size > 1000
