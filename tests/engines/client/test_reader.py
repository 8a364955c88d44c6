"""How events become an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.reader import AnswerReader

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
        AnswerReader(answer).take(event, 1.0)
    except RequestFailedError as error:
        assert error.kind == "broken_stream"  # noqa: PT017 - most events are fine
    assert isinstance(answer.text, str)
    assert answer.finish_reason is None or isinstance(answer.finish_reason, str)
