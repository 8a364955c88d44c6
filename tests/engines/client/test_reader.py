"""How events become an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.reader import AnswerReader, named_by_id
from kveval.tasks.assembly.prompt import PromptFormat

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "text", "finish_reason", "logprobs", "tokens", "top_logprobs", "usage", "token_id:1"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(event=st.dictionaries(st.sampled_from(["choices", "usage"]), json_values))
def test_no_event_raises_anything_else(event: dict[str, Any]) -> None:
    answer = EngineAnswer()
    try:
        AnswerReader(answer).take([event], 1.0)
    except RequestFailedError as error:
        assert error.kind == "broken_stream"  # noqa: PT017 - most events are fine
    assert isinstance(answer.text, str)
    assert answer.finish_reason is None or isinstance(answer.finish_reason, str)


IDS = {"The": 504, " harbour": 30, "": 9}


def test_texts_become_ids_and_what_has_none_is_left_out() -> None:
    top = [{"The": -0.1, "\ufffd": -3.0}, None]
    event = {
        "model": "m",
        "choices": [{"text": "The harbour", "logprobs": {"tokens": ["The", " harbour"], "top_logprobs": top}}],
    }

    named, is_whole = named_by_id(event, IDS)

    assert is_whole
    logprobs = {"tokens": ["token_id:504", "token_id:30"], "top_logprobs": [{"token_id:504": -0.1}, {}]}
    assert named == {"model": "m", "choices": [{"text": "The harbour", "logprobs": logprobs}]}


def test_an_output_token_without_an_id_takes_the_logprobs_with_it() -> None:
    event = {"choices": [{"text": "x", "logprobs": {"tokens": ["?"], "top_logprobs": [{"The": -1.0}]}}]}
    assert named_by_id(event, IDS) == ({"choices": [{"text": "x", "logprobs": None}]}, False)


@pytest.mark.parametrize("event", [{}, {"choices": []}, {"choices": [{"text": "x", "logprobs": None}]}])
def test_nothing_to_name(event: dict[str, object]) -> None:
    assert named_by_id(event, IDS) == ({**event, "choices": event.get("choices", [])}, True)


def test_a_real_vocabulary(smollm2: object) -> None:
    prompt_format = PromptFormat.load(smollm2)  # type: ignore[arg-type]
    ids = prompt_format.ids_by_text
    assert prompt_format.decode([ids[" harbour"]]) == " harbour"
    assert "\ufffd" not in ids
    assert len(ids) > 0.95 * prompt_format.tokenizer.vocab_size
    assert prompt_format.begins_with_bos


def test_the_count_of_a_text_takes_special_tokens_as_such(smollm2: object) -> None:
    prompt_format = PromptFormat.load(smollm2)  # type: ignore[arg-type]
    text, tokens = prompt_format.spell(prompt_format.prefix_ids)
    assert text.startswith("<|im_start|>system\n")
    assert tokens == len(prompt_format.prefix_ids)
    # Special tokens in a prompt's own text stay plain after counting as before.
    assert len(prompt_format.encode("<|im_start|>")) > 1
