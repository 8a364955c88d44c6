"""What a model's chat template can render."""

from __future__ import annotations

from functools import cache

import pytest

from kveval.errors import PlanError
from kveval.models.tokenizer import load_tokenizer
from kveval.resources import tasks_directory
from kveval.tasks.assembly import chat
from kveval.tasks.assembly.chat import ChatTemplate

CHATML_TOOLS = (tasks_directory() / "tool_calls" / "chatml_tools.jinja").read_text()


@pytest.fixture(autouse=True)
def _tokenizers_are_read_once(monkeypatch):
    monkeypatch.setattr(chat, "load_tokenizer", load_once)


load_once = cache(load_tokenizer)


def test_what_a_template_lacks(smollm2):
    assert ChatTemplate(smollm2, {}).lack(tools=False) is None
    assert ChatTemplate(smollm2, {}).lack(tools=True) == "tools"
    assert ChatTemplate(smollm2, {}, CHATML_TOOLS).lack(tools=True) is None
    one_turn = "{% for m in messages[-1:] %}{{ m.content }}{% endfor %}"
    assert ChatTemplate(smollm2, {}, one_turn).lack(tools=False) == "turns"
    refusing = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + CHATML_TOOLS
    assert ChatTemplate(smollm2, {}, refusing).lack(tools=True) == "tools"
    dated = "{{ date or strftime_now('%d %b') }}" + CHATML_TOOLS
    assert ChatTemplate(smollm2, {}, dated).lack(tools=True) == "date"
    assert ChatTemplate(smollm2, {"date": "today"}, dated).lack(tools=True) is None


def test_a_model_without_a_template_lacks_one(tmp_path):
    from support.model_folder import model_dir

    assert ChatTemplate(model_dir(tmp_path, template=None), {}).lack(tools=False) == "template"


def test_the_arguments_of_earlier_calls_reach_the_template_as_objects(smollm2):
    template = ChatTemplate(smollm2, {}, "{% for m in messages %}{{ m.tool_calls[0].function.arguments }}{% endfor %}")
    for arguments, read in (('{"a": [1]}', "{'a': [1]}"), ("no JSON", "{}"), ("[1]", "{}"), ({"b": 2}, "{'b': 2}")):
        call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
        asked = {"role": "assistant", "content": "", "tool_calls": [call]}
        user = {"role": "user", "content": "", "tool_calls": [{"function": {"arguments": "."}}]}
        assert template.text([asked, user]) == f"{read}."


@pytest.mark.parametrize("message", [{"content": None}, {}, {"content": ""}])
@pytest.mark.parametrize("calls", [[{"type": "function", "function": {"name": "f", "arguments": "{}"}}], None])
@pytest.mark.parametrize("role", ["assistant", "tool"])
def test_a_message_without_content_has_an_empty_text(smollm2, message, calls, role):
    """As vLLM does. OpenAI's own format has null beside the calls of an earlier turn."""
    template = ChatTemplate(smollm2, {}, "{% for m in messages %}<{{ m['content'] + '|' }}>{% endfor %}")
    asked = {"role": role, **message, **({"tool_calls": calls} if calls else {})}
    assert template.text([asked, {"role": "user", "content": "so?"}]) == "<|><so?|>"


def test_a_template_that_refuses_says_why_in_one_line(smollm2):
    template = ChatTemplate(smollm2, {}, "{{ raise_exception('no\n\nsystem turn') }}")
    with pytest.raises(PlanError, match=r"the model's chat template refuses the messages: no system turn$"):
        template.text([{"role": "system", "content": "x"}])
