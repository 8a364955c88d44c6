"""What a server lacks, by the names that facts keep."""

from __future__ import annotations

import pytest

from kveval.engines.client.dialect import Dialect


def test_a_vllm_server_lacks_nothing() -> None:
    assert list(Dialect().lacks()) == []


@pytest.mark.parametrize(
    ("dialect", "lacks"),
    [
        (Dialect(prompt="text"), ["token_ids"]),
        (Dialect(prompt="text_without_bos"), ["token_ids"]),
        (Dialect(streams=False), ["streamed_usage"]),
        (Dialect(streams=False, is_counted=False), ["usage", "streams"]),
        (Dialect(is_counted=False), ["usage"]),
        (Dialect(most_logprobs=0), ["logprobs"]),
        (Dialect(most_logprobs=0, names_tokens_by="text"), ["logprobs"]),
        (Dialect(most_logprobs=5, names_tokens_by="text"), ["logprobs_by_id"]),
        (Dialect(perplexity=None), ["perplexity"]),
        (Dialect(perplexity="echo"), []),
        (Dialect(unknown_fields=frozenset({"cache_salt", "seed"})), ["cache_salt"]),
        (Dialect(unknown_fields=frozenset({"return_token_ids"})), ["return_token_ids"]),
        (Dialect(chats=False, calls_tools=False), ["chat", "tools"]),
        (Dialect(calls_tools=False), ["tools"]),
    ],
)
def test_each_lack_has_one_name(dialect: Dialect, lacks: list[str]) -> None:
    assert list(dialect.lacks()) == lacks
