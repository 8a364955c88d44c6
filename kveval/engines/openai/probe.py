"""Finds out what an OpenAI-compatible server understands, by asking it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from kveval.engines.client.dialect import CHAT_COMPLETIONS, COMPLETIONS, Dialect, Spell
from kveval.run.facts import PromptForm

_PASSAGE = "The harbour was quiet in the early morning, and the boats lay"
# Two readings of one token's logprob differ by less than this, even with batching. Those of two tokens differ by more.
_SAME_LOGPROB = 0.3
_TOOL = {
    "type": "function",
    "function": {
        "name": "report_weather",
        "description": "Reports the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_CHAT = {"messages": [{"role": "user", "content": "Report the weather of Oslo."}]}


class Reply(NamedTuple):
    """What a server answered to one request of the probe, or why it refused.

    Attributes:
        is_lost: nothing came back: the connection broke, or a gateway reports that it did.
    """

    events: list[dict[str, Any]]
    refusal: str | None = None
    is_lost: bool = False

    @property
    def said_tokens(self) -> int | None:
        """What the server says of the number of prompt tokens."""
        usages = [event.get("usage") for event in self.events]
        counts = [usage.get("prompt_tokens") for usage in usages if isinstance(usage, Mapping)]
        return next((count for count in counts if isinstance(count, int)), None)

    @property
    def counted(self) -> int | None:
        """The tokens of the prompt. None if the server does not count them: some then say 0."""
        return self.said_tokens if self.said_tokens and self.said_tokens > 0 else None

    def first(self, *path: str) -> Any:
        """Returns a value inside the first choice, such as ``first("logprobs", "tokens")``, or None."""
        for event in self.events:
            value: Any = next(iter(event.get("choices") or ()), None)
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value:
                return value
        return None


Post = Callable[[str, Mapping[str, Any]], Awaitable[Reply]]


class NoPromptError(Exception):
    """The server answers no form of prompt. The message is the server's."""


class LostServerError(Exception):
    """The server stopped answering. The message says how."""


@dataclass(slots=True)
class DialectProbe:
    """Finds the dialect of one server, one request after the other.

    A request that breaks the connection costs what it asked for, and nothing else, if a plain one is answered after it.

    Args:
        post: sends one request; raises what keeps every request from being answered.
        prompt: token ids of a short prompt as samples are framed; `has_bos`: they begin with the tokenizer's
            beginning-of-sequence token, which some servers put there themselves.
        logprobs: alternatives per token that are wanted.

    Attributes:
        refusals: what the server said when it refused something, by the names of `Dialect.lacks`.
    """

    post: Post
    model: str
    prompt: list[int]
    has_bos: bool
    spell: Spell
    logprobs: int
    refusals: dict[str, str] = field(init=False, default_factory=dict)
    _sent: Any = field(init=False, default=None)
    _counts: dict[str, set[int]] = field(init=False, default_factory=dict)

    async def find(self) -> Dialect:
        """Returns the dialect.

        Raises:
            NoPromptError: the server takes no form of prompt.
            LostServerError: the server no longer answers.
        """
        dialect = await self._prompt_form()
        unknown = frozenset([name async for name in self._unknown_fields()])
        streamed = await self._streamed()
        perplexity = await self._perplexity()
        logprobs, names_tokens_by = await self._logprobs()
        chats, calls_tools = await self._chat()
        # Some servers leave out what comes from their prefix cache. Then their count tells nothing of the prompt.
        if len(self._counts.get(str(self._sent), ())) > 1:
            dialect = replace(dialect, is_counted=False, added_tokens=0)
        return replace(
            dialect,
            streams=streamed.refusal is None and (streamed.counted is not None or not dialect.is_counted),
            perplexity=perplexity,
            unknown_fields=unknown,
            most_logprobs=logprobs,
            names_tokens_by=names_tokens_by,
            chats=chats,
            calls_tools=calls_tools,
        )

    async def _ask(self, path: str, body: Mapping[str, Any]) -> Reply:
        reply = await self.post(path, body)
        if reply.is_lost and self._sent is not None and (await self.post(COMPLETIONS, self._body())).refusal:
            raise LostServerError(reply.refusal)
        return reply

    def _body(self, prompt: Any = None, **more: Any) -> dict[str, Any]:
        asked = self._sent if prompt is None else prompt
        return {"model": self.model, "max_tokens": 4, "temperature": 0.0, "prompt": asked, **more}

    async def _complete(self, prompt: Any = None, **more: Any) -> Reply:
        body = self._body(prompt, **more)
        reply = await self._ask(COMPLETIONS, body)
        if reply.said_tokens is not None:
            self._counts.setdefault(str(body["prompt"]), set()).add(reply.said_tokens)
        return reply

    def _note(self, lack: str, *replies: Reply) -> None:
        """Keeps the server's words about something that it refused."""
        words = next((reply.refusal for reply in replies if reply.refusal), None)
        if words:
            self.refusals[lack] = words

    async def _prompt_form(self) -> Dialect:
        reply = await self._complete(self.prompt)
        if reply.refusal is None and reply.counted in (None, len(self.prompt)):
            self._sent = self.prompt
            return Dialect(is_counted=reply.counted is not None)
        self._note("token_ids", reply)
        forms: list[tuple[PromptForm, list[int], int]] = [("text", self.prompt, 0)]
        if self.has_bos:
            forms.append(("text_without_bos", self.prompt[1:], 1))
        tried: list[Dialect] = []
        for form, ids, put_in_front in forms:
            text, tokens = self.spell(ids)
            reply = await self._complete(text)
            if reply.refusal is not None:
                raise NoPromptError(reply.refusal)
            added = 0 if reply.counted is None else reply.counted - tokens - put_in_front
            tried.append(Dialect(prompt=form, added_tokens=added, is_counted=reply.counted is not None))
            if added == 0:
                self._sent = text
                return tried[-1]
        self._sent = self.spell(self.prompt)[0]
        return tried[0]

    async def _unknown_fields(self) -> AsyncIterator[str]:
        """Yields fields that the server refuses or ignores: many servers accept any field and ignore it."""
        if (await self._complete(seed=0)).refusal is not None:
            yield "seed"
        # vLLM knows the field, and refuses an empty salt.
        salted, unsalted = await self._complete(cache_salt="kveval-probe"), await self._complete(cache_salt="")
        if salted.refusal is not None or unsalted.refusal is None:
            self._note("cache_salt", salted)
            yield "cache_salt"
        reply = await self._complete(return_token_ids=True)
        self._note("return_token_ids", reply)
        if not (reply.first("prompt_token_ids") or any(event.get("prompt_token_ids") for event in reply.events)):
            yield "return_token_ids"

    async def _streamed(self) -> Reply:
        reply = await self._complete(stream=True, stream_options={"include_usage": True})
        self._note("streams", reply)
        self._note("streamed_usage", reply)
        return reply

    async def _logprobs(self) -> tuple[int | None, Literal["id", "text"]]:
        """Returns how many alternatives it gives (None if none are wanted), and how it names tokens."""
        if not self.logprobs:
            return None, "id"
        for wanted in dict.fromkeys((self.logprobs, 5)):
            if wanted > self.logprobs:
                continue
            reply = await self._complete(logprobs=wanted, return_tokens_as_token_ids=True)
            self._note("logprobs", reply)
            tokens, top = reply.first("logprobs", "tokens"), reply.first("logprobs", "top_logprobs")
            if not (tokens and top and top[0]):
                continue
            if all(str(token).startswith("token_id:") for token in (*tokens, *top[0])):
                return wanted, "id"
            # If the texts do not join to the output, they are not its tokens.
            if "".join(map(str, tokens)) == reply.first("text"):
                return wanted, "text"
        return 0, "id"

    async def _perplexity(self) -> Literal["prompt_logprobs", "echo"] | None:
        reply = await self._complete(_PASSAGE, prompt_logprobs=0)
        if reply.first("prompt_logprobs"):
            return "prompt_logprobs"
        self._note("perplexity", reply)
        return "echo" if await self._echoes_rightly() else None

    async def _echoes_rightly(self) -> bool:
        """Whether a token in an echoed text has the logprob it had when it was generated there.

        Of llama-cpp-python 0.3.36 it is not: its echoed logprobs are off by one token.
        """
        next_token = await self._complete(_PASSAGE, logprobs=1, max_tokens=1)
        made, generated = next_token.first("text"), next_token.first("logprobs", "token_logprobs")
        if not made or not generated:
            return False
        echoed = await self._complete(_PASSAGE + made, echo=True, logprobs=1, max_tokens=1)
        values = echoed.first("logprobs", "token_logprobs") or []
        read = values[echoed.counted - 1] if echoed.counted and echoed.counted <= len(values) else None
        return isinstance(read, float) and abs(read - generated[0]) < _SAME_LOGPROB

    async def _chat(self) -> tuple[bool, bool]:
        body = {"model": self.model, "max_tokens": 1, "temperature": 0.0, **_CHAT}
        reply = await self._ask(CHAT_COMPLETIONS, body)
        self._note("chat", reply)
        if reply.first("message") is None:
            return False, False
        # Shows what its streams call the model.
        await self._ask(CHAT_COMPLETIONS, {**body, "stream": True, "stream_options": {"include_usage": True}})
        with_tool = {**body, "max_tokens": 64, "tools": [_TOOL], "tool_choice": "required"}
        reply = await self._ask(CHAT_COMPLETIONS, with_tool)
        self._note("tools", reply)
        return True, bool(reply.first("message", "tool_calls"))
