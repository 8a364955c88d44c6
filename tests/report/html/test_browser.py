"""The report in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.make_run import make_run, make_samples, scored

from kveval.report.history.nights import build_reports
from kveval.report.html.report import build_report
from kveval.run.records import Outcome, SampleRow

pytestmark = pytest.mark.browser

HOSTILE = (
    "\n</script><script>window.hacked = 1</script></style></pre></details>\"'><img src=x onerror='window.hacked = 2'>"
    "<svg onload='window.hacked = 3'> {{ 7 * 7 }} javascript:alert(1) &lt;b&gt; "
    "\u202egnirts\u202c\u200b\x00\x07\x1b[31m \t end\n\n"
)


class View:
    """A page, and everything it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, anchor: str = "", **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri() + anchor)

    def shown_flips(self) -> list[str]:
        return self.page.eval_on_selector_all(
            "details.flip:not([hidden])", "flips => flips.map(flip => flip.dataset.id)"
        )

    def wait_for_count(self, text: str) -> None:
        self.page.locator("#shown", has_text=text).wait_for()


def flipping(row: SampleRow, _: np.random.Generator) -> tuple[Outcome, str]:
    if int(row.sample_id[:2], 16) < 60:
        return ("empty", "") if int(row.sample_id[2:4], 16) < 100 else ("wrong", "value- of another key, I think")
    return "correct", row.doc["answers"][0]


def hostile(row: SampleRow, _: np.random.Generator) -> tuple[Outcome, str]:
    return "wrong", HOSTILE


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(
        tmp_path_factory.mktemp("runs") / "night",
        samples=make_samples(tasks={"niah_multikey": "needle", "qa": "qa"}, haystacks=8, questions=5),
        answers={
            "bf16": scored(0.9),
            "fp8": flipping,
            "int8": scored(0.8),
            "again": scored(0.88),
            "control": scored(0.9),
        },
        variants={
            "fp8": {"findings": [{"level": "warning", "code": "scales_1", "message": "K and V scales are all 1.0"}]},
            "int8": {"facts": {"storage": "emulated", "emulation": "int8 per_token_head"}},
            "again": {"role": "aa", "of": "bf16"},
            "control": {"role": "control", "of": "fp8"},
        },
    )
    return build_report(run)


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    doc = {"question": HOSTILE, "answers": [HOSTILE], "excerpts": [HOSTILE], "absent": False}
    samples = [row.model_copy(update={"doc": doc}) for row in make_samples(haystacks=6, questions=1)]
    run = make_run(
        tmp_path_factory.mktemp("runs") / "hostile",
        samples=samples,
        answers={"bf16": scored(1.1), "fp8": hostile},
        variants={"fp8": {"status": "stopped", "reason": HOSTILE}},
        manifest={"config": {HOSTILE: HOSTILE}, "command": [HOSTILE]},
    )
    return build_report(run)


@pytest.fixture
def view(chromium: Any, report: Path) -> Iterator[View]:
    opened = View(chromium, report)
    yield opened
    opened.context.close()


def test_opens_in_silence_and_asks_for_nothing(view: View, report: Path) -> None:
    view.page.wait_for_load_state("networkidle")
    assert view.complaints == []
    assert view.requests == [report.as_uri()]
    assert view.page.evaluate("document.documentElement.classList.contains('js')")


def test_filters_narrow_the_list_together(view: View) -> None:
    everything = view.shown_flips()
    view.page.select_option("select[name=variant]", "fp8")
    view.page.select_option("select[name=direction]", "lost")
    view.page.select_option("select[name=outcome]", "empty")
    view.page.select_option("select[name=length]", "8192")
    view.page.select_option("select[name=task]", "qa")
    view.wait_for_count(" of ")
    flips = view.page.eval_on_selector_all(
        "details.flip:not([hidden])", "flips => flips.map(flip => ({...flip.dataset}))"
    )
    assert 0 < len(flips) < len(everything)
    wanted = {"variant": "fp8", "direction": "lost", "outcome": "empty", "length": "8192", "task": "qa"}
    assert all(wanted.items() <= flip.items() for flip in flips)
    assert view.page.locator("#shown").inner_text() == f"{len(flips)} of {len(everything)} flips"
    view.page.click("button[type=reset]")
    view.wait_for_count(f"{len(everything)} flips")
    assert "again" not in {flip.rsplit("-", 1)[1] for flip in view.shown_flips()}
    view.page.select_option("select[name=variant]", "again")
    view.page.wait_for_function("document.querySelector('.flip:not([hidden])').dataset.variant === 'again'")
    assert {flip.rsplit("-", 1)[1] for flip in view.shown_flips()} == {"again"}


def test_a_flip_is_copied_as_an_issue(view: View) -> None:
    flip = view.page.locator("details.flip:not([hidden])").first
    flip.locator("summary").click()
    copied = view.page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener("copy", () => resolve(document.activeElement.value), { once: true });
            document.querySelector("details.flip:not([hidden]) button.issue").click();
        })"""
    )
    assert copied.startswith("### ")
    sample = flip.get_attribute("data-id").split("-")[1]
    assert f"`kveval show RUN {sample}` prints the whole prompt." in copied
    assert view.page.locator(".measured").inner_text() in copied
    assert copied.count("```") >= 4


def test_search(view: View) -> None:
    everything = view.shown_flips()
    sample = everything[3].split("-")[1]
    found = sum(flip.split("-")[1] == sample for flip in everything)
    view.page.keyboard.press("/")
    view.page.keyboard.type(sample.upper())
    # The page filters while keys are still coming.
    view.wait_for_count(f"{found} of {len(everything)} flips")
    assert {flip.split("-")[1] for flip in view.shown_flips()} == {sample}
    view.page.keyboard.type(" and nothing else")
    view.page.wait_for_selector("#none-left:not([hidden])")
    assert view.shown_flips() == []


def test_keys_go_through_what_is_shown(view: View) -> None:
    view.page.select_option("select[name=variant]", "int8")
    view.wait_for_count(" of ")
    shown = view.shown_flips()
    view.page.evaluate("document.activeElement.blur()")
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        view.page.keyboard.press(key)
        assert view.page.evaluate("document.querySelector('.current').dataset.id") == shown[at]
        assert view.page.evaluate("document.activeElement.parentElement.dataset.id") == shown[at]
        assert view.page.url.endswith(f"#{shown[at]}")
    assert view.page.eval_on_selector_all("details.flip[open]", "open => open.length") == 1
    view.page.uncheck("input[name=keys]")
    view.page.evaluate("document.activeElement.blur()")
    view.page.keyboard.press("j")
    assert view.page.evaluate("document.querySelector('.current').dataset.id") == shown[1]


@pytest.mark.parametrize("javascript", [True, False])
def test_a_link_opens_its_sample(chromium: Any, view: View, report: Path, javascript: bool) -> None:
    wanted = view.shown_flips()[-1]
    for anchor in (wanted, "-".join(wanted.split("-")[:2])):
        linked = View(chromium, report, f"#{anchor}", java_script_enabled=javascript)
        linked.page.wait_for_timeout(200)
        opened = linked.page.locator("details.flip[open]")
        assert opened.count() == 1
        assert opened.get_attribute("data-id") in (wanted, *(f for f in view.shown_flips() if f.startswith(anchor)))
        box = opened.locator("summary").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900
        linked.context.close()


def test_tables_sort_both_ways(view: View) -> None:
    table = view.page.locator("#cost table").first
    heading = table.locator("th", has_text="records")
    for direction in ("ascending", "descending"):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == direction
        values = [int(text.replace(",", "")) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts()]
        assert values == sorted(values, reverse=direction == "descending")


def test_everything_is_there_without_script(chromium: Any, report: Path) -> None:
    plain = View(chromium, report, java_script_enabled=False)
    assert plain.page.locator("#answer article").count() == 2
    assert plain.page.locator("details.flip").count() > 20
    assert not plain.page.locator("#filters").is_visible()
    plain.page.locator("details.flip summary").first.click()
    assert plain.page.locator("details.flip pre").first.is_visible()
    plain.context.close()


def test_dark_mode(chromium: Any, report: Path) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        opened = View(chromium, report, color_scheme=scheme)
        backgrounds.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        opened.context.close()
    assert backgrounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_nothing_is_wider_than_the_window(chromium: Any, report: Path, width: int) -> None:
    opened = View(chromium, report, viewport={"width": width, "height": 800})
    opened.page.keyboard.press("j")
    opened.page.evaluate("document.querySelectorAll('details:not(.flip)').forEach(box => { box.open = true; })")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.context.close()


def test_on_paper(chromium: Any, report: Path, tmp_path: Path) -> None:
    opened = View(chromium, report, color_scheme="dark")
    opened.page.keyboard.press("j")
    assert opened.page.pdf(path=tmp_path / "report.pdf", format="A4")[:5] == b"%PDF-"
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.page.locator("#filters").is_visible()
    assert not opened.page.locator("nav").is_visible()
    assert opened.page.locator("details.flip pre").first.is_visible()
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("details:not(.flip):not([open])").count() == 0
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("details:not(.flip)[open]").count() == 0
    opened.context.close()


def test_hostile_text_executes_nothing(chromium: Any, hostile_report: Path) -> None:
    opened = View(chromium, hostile_report)
    opened.page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
    opened.page.wait_for_timeout(300)
    assert opened.page.evaluate("window.hacked") is None
    assert opened.complaints == []
    assert opened.requests == [hostile_report.as_uri()]
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("script").count() == 1
    assert "\u202e" not in opened.page.content()
    opened.context.close()


@pytest.mark.parametrize("by", ["button", "selection"])
def test_copying_gives_the_exact_text(chromium: Any, hostile_report: Path, by: str) -> None:
    opened = View(chromium, hostile_report)
    opened.page.evaluate("""() => document.addEventListener('copy', event => {
      window.copied = event.clipboardData.getData('text/plain');
    })""")
    opened.page.keyboard.press("j")
    if by == "button":
        opened.page.locator(".current button.copy").nth(1).click()
    else:
        opened.page.evaluate("""() => getSelection().selectAllChildren(document.querySelectorAll('.current pre')[1])""")
        opened.page.keyboard.press("Control+c")
    assert opened.page.evaluate("window.copied") == HOSTILE
    opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(chromium: Any, axe: str, report: Path, scheme: str) -> None:
    opened = View(chromium, report, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details:not(.flip)').forEach(box => { box.open = true; })")
    opened.page.keyboard.press("j")
    opened.page.evaluate(axe)
    violations = opened.page.evaluate("axe.run()")["violations"]
    serious = [
        f"{found['id']}: {node['html'][:150]}"
        for found in violations
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]
    assert serious == []
    opened.context.close()


def test_history_in_the_browser(chromium: Any, axe: str, tmp_path: Path) -> None:
    samples = make_samples(haystacks=6, questions=4)
    runs = [
        make_run(
            tmp_path / name,
            samples=samples,
            answers={"bf16": scored(0.9), "fp8": scored(share)},
            variants={"bf16": {"facts": {"storage": "native", "engine_version": version}}},
            manifest={"created": f"2026-01-0{day}T03:04:05Z"},
        )
        for day, (name, share, version) in enumerate(
            [("monday", 0.9, "0.32.0"), ("tuesday", 0.88, "0.32.0"), ("wednesday", 0.3, "0.33.0")], 1
        )
    ]
    written = build_reports(list(reversed(runs)), tmp_path / "history.html")
    opened = View(chromium, written[-1][1])
    rows = opened.page.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["wednesday"] * 2 + ["tuesday"] * 2 + ["monday"] * 2
    assert re.search(r"0\.33\.0.*was.*0\.32\.0", rows[0].replace("\n", " "))
    assert "fail" in rows[1]
    assert opened.page.locator("svg .change").count() == 2
    assert opened.complaints == []
    opened.page.evaluate(axe)
    found = opened.page.evaluate("axe.run()")["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], json.dumps(found)[:2000]
    opened.page.locator("tbody a").first.click()
    assert opened.page.title() == "wednesday: kveval report"
    opened.context.close()
