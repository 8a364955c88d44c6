"""What a server understands, from scripted replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kveval.engines.client.dialect import Dialect
from kveval.engines.openai.probe import DialectProbe, LostServerError, NoPromptError, Reply

PROMPT = [1, 20, 30, 40]


def spell(ids: list[int]) -> tuple[str, int]:
    """One token more than given where a whole prompt is spelled, as where pieces meet."""
    return " ".join(map(str, ids)), len(ids) + 1


class Server:
    """Answers as vLLM does, but for what it `lacks`; counts `counted` tokens of a text, and
    closes the connection on a field `drops`."""

    def __init__(self, *lacks: str, counted: int | None = 5, most_logprobs: int = 20, drops: str = "") -> None:
        self.lacks, self.counted, self.most_logprobs, self.drops = set(lacks), counted, most_logprobs, drops
        self.bodies: list[Mapping[str, Any]] = []

    async def __call__(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.bodies.append(body)
        if self.drops in body or (self.drops == "ids" and isinstance(body.get("prompt"), list)):
            return Reply([], "it closes the connection without an answer", is_lost=True)
        if body.get("cache_salt") == "" and "heed" not in self.lacks:
            return Reply([], "HTTP 400: cache_salt must be a non-empty string")
        refused = next((name for name in self.lacks if name in body), None)
        if refused or (isinstance(body.get("prompt"), list) and "token_ids" in self.lacks):
            return Reply([], f"HTTP 400: {refused}")
        if "messages" in body:
            message: dict[str, Any] = {"content": "hello"}
            if "tools" in body and "calls" not in self.lacks:
                message["tool_calls"] = [{}]
            return Reply([]) if "chat" in self.lacks else Reply([{"choices": [{"message": message}]}])
        if body.get("logprobs", 0) > self.most_logprobs:
            return Reply([], "HTTP 400: too many logprobs")
        choice: dict[str, Any] = {"text": "x"}
        name = "x" if "ids" in self.lacks else "unrelated" if "names" in self.lacks else "token_id:3"
        if body.get("return_token_ids") and "heed" not in self.lacks:
            choice["prompt_token_ids"] = PROMPT
        if body.get("logprobs"):
            choice["logprobs"] = {
                "tokens": [name], "top_logprobs": [{name: -0.1}], "token_logprobs": [-1.0]
            }  # fmt: skip
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = [None, {"3": {"logprob": -1.0}}]
        if body.get("echo"):
            # The last one was generated, the one before is of the token asked for.
            off = -9.0 if "alignment" in self.lacks else -1.0
            choice["logprobs"] = {"token_logprobs": [None, -3.0, -3.0, -3.0, off, -2.0]}
        count = len(body["prompt"]) if isinstance(body["prompt"], list) else self.counted
        streamless = body.get("stream") and "streamed" in self.lacks
        return Reply(
            [{"choices": [choice]}, {"usage": None if streamless or count is None else {"prompt_tokens": count}}]
        )


async def find(server: Server, *, has_bos: bool = False, logprobs: int = 20) -> Dialect:
    return await DialectProbe(server, "m", PROMPT, has_bos, spell, logprobs).find()


async def test_vllm_understands_everything() -> None:
    dialect = await find(Server())
    assert dialect == Dialect(most_logprobs=20)
    assert list(dialect.lacks()) == []


async def test_fewer_logprobs_than_wanted() -> None:
    assert (await find(Server(most_logprobs=5))).most_logprobs == 5
    assert (await find(Server("logprobs"))).most_logprobs == 0


async def test_tokens_named_by_text() -> None:
    dialect = await find(Server("ids"))
    assert (dialect.most_logprobs, dialect.names_tokens_by) == (20, "text")
    assert list(dialect.lacks()) == ["logprobs_by_id"]
    assert (await find(Server("names"))).most_logprobs == 0


async def test_no_logprobs_wanted_is_no_lack_found() -> None:
    server = Server()
    assert list((await find(server, logprobs=0)).lacks()) == []
    assert all(not body.get("logprobs") or body.get("echo") for body in server.bodies)


async def test_text_where_token_ids_are_refused() -> None:
    dialect = await find(Server("token_ids"))
    assert (dialect.prompt, dialect.added_tokens) == ("text", 0)
    assert "token_ids" in dialect.lacks()


@pytest.mark.parametrize(("has_bos", "form", "added"), [(False, "text", 1), (True, "text", 1)])
async def test_a_doubled_bos_is_counted(has_bos: bool, form: str, added: int) -> None:
    dialect = await find(Server("token_ids", counted=6), has_bos=has_bos)
    assert (dialect.prompt, dialect.added_tokens) == (form, added)


async def test_a_bos_of_the_server_takes_the_place_of_ours() -> None:
    class AddsOne(Server):
        async def __call__(self, path: str, body: Mapping[str, Any]) -> Reply:
            if isinstance(body.get("prompt"), str):
                # Its own token, and what `spell` says of the text.
                self.counted = 1 + len(body["prompt"].split()) + 1
            return await super().__call__(path, body)

    dialect = await find(AddsOne("token_ids"), has_bos=True)
    assert (dialect.prompt, dialect.added_tokens) == ("text_without_bos", 0)
    dialect = await find(AddsOne("token_ids"), has_bos=False)
    assert (dialect.prompt, dialect.added_tokens) == ("text", 1)


async def test_whole_answers_where_streams_do_not_count() -> None:
    dialect = await find(Server("streamed"))
    assert not dialect.streams
    assert list(dialect.lacks()) == ["streamed_usage"]


async def test_a_server_that_never_counts_is_streamed() -> None:
    dialect = await find(Server("token_ids", counted=None))
    assert dialect.streams
    assert not dialect.is_counted


async def test_a_server_without_streams_is_asked_for_whole_answers() -> None:
    """It counts nothing, so only the missing stream can tell."""
    dialect = await find(Server("stream", "token_ids", counted=None))
    assert not dialect.streams
    assert set(dialect.lacks()) == {"token_ids", "usage", "streams"}


async def test_perplexity_by_echo_or_not_at_all() -> None:
    assert (await find(Server("prompt_logprobs"))).perplexity == "echo"
    assert (await find(Server("prompt_logprobs", "echo"))).perplexity is None
    # llama-cpp-python 0.3.36 was seen to give each echoed token the logprob of another.
    assert (await find(Server("prompt_logprobs", "alignment"))).perplexity is None


async def test_refused_fields_are_found_one_by_one() -> None:
    dialect = await find(Server("cache_salt", "seed"))
    assert dialect.unknown_fields == {"cache_salt", "seed"}


async def test_a_field_that_is_accepted_and_not_heeded_is_not_understood() -> None:
    assert (await find(Server("heed"))).unknown_fields == {"cache_salt", "return_token_ids"}


async def test_chat_and_tools() -> None:
    assert list((await find(Server("calls"))).lacks()) == ["tools"]
    assert list((await find(Server("chat"))).lacks()) == ["chat", "tools"]


async def test_no_prompt_at_all() -> None:
    with pytest.raises(NoPromptError, match="HTTP 400: prompt"):
        await find(Server("prompt"))


@pytest.mark.parametrize(
    ("field", "lacks"),
    [
        ("logprobs", {"logprobs"}),
        ("prompt_logprobs", set()),
        ("seed", set()),
        ("cache_salt", {"cache_salt"}),
        ("return_token_ids", {"return_token_ids"}),
        ("stream", {"streamed_usage"}),
        ("messages", {"chat", "tools"}),
        ("tools", {"tools"}),
        ("ids", {"token_ids"}),
    ],
)
async def test_a_request_that_breaks_the_connection_costs_what_it_asked_for(field: str, lacks: set[str]) -> None:
    probe = DialectProbe(Server(drops=field), "m", PROMPT, False, spell, 20)
    dialect = await probe.find()
    assert set(dialect.lacks()) == lacks
    for name in lacks - {"tools"}:
        assert probe.refusals[name] == "it closes the connection without an answer"


async def test_a_server_that_answers_nothing_any_more() -> None:
    class Dies(Server):
        async def __call__(self, path: str, body: Mapping[str, Any]) -> Reply:
            if any("cache_salt" in earlier for earlier in self.bodies):
                return Reply([], "gone", is_lost=True)
            return await super().__call__(path, body)

    with pytest.raises(LostServerError, match=r"^gone$"):
        await find(Dies())
    with pytest.raises(NoPromptError, match="closes the connection"):
        await find(Server(drops="prompt"))


@pytest.mark.parametrize("counted", [0, -1])
async def test_a_count_of_no_token_is_no_count(counted: int) -> None:
    dialect = await find(Server("token_ids", counted=counted))
    assert (dialect.is_counted, dialect.added_tokens, dialect.streams) == (False, 0, True)


@pytest.mark.parametrize("cached", [0, 1])
@pytest.mark.parametrize("lacks", [(), ("token_ids",)])
async def test_a_count_without_what_is_in_the_prefix_cache_is_no_count(cached: int, lacks: tuple[str, ...]) -> None:
    seen: set[str] = set()

    class CountsNew(Server):
        async def __call__(self, path: str, body: Mapping[str, Any]) -> Reply:
            reply = await super().__call__(path, body)
            known, prompt = str(body.get("prompt")) in seen, str(body.get("prompt"))
            seen.add(prompt)
            return (
                Reply([*reply.events[:1], {"usage": {"prompt_tokens": cached}}]) if known and reply.counted else reply
            )

    dialect = await find(CountsNew(*lacks))
    assert (dialect.is_counted, dialect.added_tokens) == (False, 0)


async def test_refusals_are_kept_in_the_servers_words() -> None:
    probe = DialectProbe(Server("cache_salt", "chat", "logprobs"), "m", PROMPT, False, spell, 20)
    await probe.find()
    assert probe.refusals["cache_salt"] == "HTTP 400: cache_salt"
    assert probe.refusals["logprobs"] == "HTTP 400: logprobs"
