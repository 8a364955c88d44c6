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


def read(*events: dict[str, Any], was_streamed: bool = True, **options: Any) -> EngineAnswer:
    """Reads events that arrive every 50 ms."""
    answer = EngineAnswer()
    reader = AnswerReader(answer, **options)
    for number, event in enumerate(events, start=1):
        reader.take([event], 50.0 * number)
    reader.finish(was_streamed=was_streamed)
    return answer


def said(text: str, finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": finish_reason, **fields}]}


def counts(completion_tokens: int, prompt_tokens: int = 9) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}}


def test_the_servers_own_count_of_tokens_counts_and_not_its_events() -> None:
    answer = read(*[said("four of them at once ")] * 5, said("one"), said("", "stop"), counts(21))
    assert answer.output_tokens == 21
    assert answer.itl_ms == 250 / 20
    assert (answer.ttft_ms, answer.token_ms[-1]) == (50.0, 300.0)
    # Nobody knows how many of them were in each.
    assert answer.chunk_tokens == []


def test_a_server_that_sends_less_than_a_token_at_a_time() -> None:
    answer = read(*[said("c")] * 8, said("", "stop"), counts(2))
    assert (answer.output_tokens, answer.itl_ms) == (2, 350.0)


def test_a_server_that_counts_nothing_is_counted_by_its_events() -> None:
    for end in ([], [counts(0, 0)]):
        answer = read(said("a "), said("b "), said("c"), said("", "stop"), *end, is_counted=False)
        assert (answer.output_tokens, answer.itl_ms, answer.chunk_tokens) == (3, 50.0, [1, 1, 1])
        assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)


def test_a_count_of_no_prompt_token_is_kept_of_a_server_that_counts() -> None:
    """It is no lack of a count: the prompt was lost."""
    assert read(said("a", "stop"), counts(1, 0)).prompt_tokens == 0


@pytest.mark.parametrize("forced_tokens", [None, 4])
@pytest.mark.parametrize("usage", [[], [counts(4)]])
def test_an_event_without_a_token_is_not_the_first_token(forced_tokens: int | None, usage: list[Any]) -> None:
    words = [said("a "), said("b "), said("c "), said("d")]
    answer = read(said(""), *words, said("", "length"), *usage, forced_tokens=forced_tokens)
    assert (answer.ttft_ms, answer.output_tokens, answer.itl_ms) == (100.0, 4, 50.0)


@pytest.mark.parametrize("usage", [[], [counts(4)]])
def test_tokens_without_text_count_where_every_event_is_a_token(usage: list[Any]) -> None:
    """A token that ends inside a character has no text yet."""
    answer = read(said(""), said("é "), said(""), said("à", "length"), *usage, forced_tokens=4)
    assert (answer.ttft_ms, answer.output_tokens, answer.token_ms[-1]) == (50.0, 4, 200.0)


def test_the_first_token_of_a_chat_may_be_thought_or_a_call() -> None:
    def delta(**fields: Any) -> dict[str, Any]:
        return {"choices": [{"delta": fields, "finish_reason": None}]}

    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": "{}"}}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    role = delta(role="assistant", content="")
    assert read(role, delta(reasoning="hm"), delta(content="x"), end, is_chat=True).ttft_ms == 100.0
    assert read(role, delta(tool_calls=[call]), end, is_chat=True).ttft_ms == 100.0


@pytest.mark.parametrize(
    "logprobs", [{"content": None}, {"content": [{"token": "a", "logprob": -0.1}]}, {"tokens": ["a"]}]
)
def test_logprobs_that_nobody_asked_for_are_left_out(logprobs: dict[str, Any]) -> None:
    answer = read(said("a", "stop", logprobs=logprobs), has_logprobs=False)
    assert (answer.text, answer.output_token_ids) == ("a", [])


def test_a_stream_without_an_end_shows_its_last_event_if_that_is_no_part_of_an_answer() -> None:
    with pytest.raises(RequestFailedError, match=r"without a finish_reason; its last event: .*evicted"):
        read(said("a"), {"status": "evicted"})
    with pytest.raises(RequestFailedError, match=r"without a finish_reason$"):
        read(said("a"))


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
