"""Templates of task files do no harm: they read no internals of Python and fill no memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jinja2 import TemplateError, UndefinedError
from support.families import STAND_IN

from kveval.errors import ConfigError
from kveval.resources import tasks_directory
from kveval.tasks.assembly.haystack import frame_texts
from kveval.tasks.loader import task_from_yaml
from kveval.tasks.templates import TemplateEnvironment, guard_lm_eval

HOSTILE = [
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * 'x' }}",
    "{{ [0] * 10**8 }}",
    "{% set x = 'y' * 100000 %}{{ x * 100000 }}",
    "{{ 10 ** (10 ** 9) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x' | center(10**9) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%999999999d' | format(1) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.getcwd() }}",
]


@pytest.mark.parametrize("template", HOSTILE)
def test_hostile_templates_are_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        TemplateEnvironment().from_string(template).render(a=1)


def test_loops_have_an_end() -> None:
    with pytest.raises(OverflowError, match="Range too big"):
        TemplateEnvironment().from_string("{% for x in range(9**9) %}{% endfor %}").render()


def test_ordinary_templates_are_rendered() -> None:
    text = "{{ '-' * 3 }}{{ 2 * a }}{{ 7 % 3 }}{{ 2 ** 3 }}{{ 'x' * -1 }}{{ ' b ' | trim | upper }}\n"
    assert TemplateEnvironment().from_string(text).render(a=1) == "---218B\n"
    with pytest.raises(UndefinedError):
        TemplateEnvironment().from_string("{{ a }}").render()


def test_lm_eval_keeps_its_own_filters() -> None:
    from lm_eval import utils

    guard_lm_eval()
    assert utils.apply_template("{{ a | regex_replace('b', 'c') }}", {"a": "abba"}) == "acca"


@pytest.mark.parametrize("key", ["doc_to_text", "gen_prefix"])
@pytest.mark.parametrize("template", [HOSTILE[0], HOSTILE[-3]])
def test_a_hostile_task_file_ends_with_one_line(tmp_path: Path, key: str, template: str) -> None:
    path = tmp_path / "mine.yaml"
    ours = tasks_directory() / "needle" / "niah_single.yaml"
    path.write_text(f"include: {ours}\ntask: mine\n{key}: {json.dumps(template)}\n")
    with pytest.raises(ConfigError, match="SecurityError"):
        frame_texts(task_from_yaml(path), STAND_IN, {"question": "Which?"})
