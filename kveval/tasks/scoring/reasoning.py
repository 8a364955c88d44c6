"""Tells an answer from the thinking before it. `TABLE` and `CHANNELS` list how models mark their thinking.

A model that marks it in another way is one more row. tests/data/reasoning.yaml has an output for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WORD = r"(?:think(?:ing)?|thoughts?|reasoning)"
# <think>, <seed:think>, <ifm|think_fast>, <longcat_think>, <think:6124c78e>
_TAG = rf"(?!no_)(?:[\w.-]{{1,30}}[:|_])?{_WORD}(?::[^\s<>]{{1,30}}|_fast(?:er)?|_never_used_\w{{1,40}})?"
GOING_ON = "\nKVEVALQANSWERQMARKER"
"""What shows, put after an output, whether the output was still thinking."""
_LAST_TOKEN = re.compile(r"<\|[^<>|]{1,40}\|>\s*\Z")
_BLANK_LINES = re.compile(r"\A(?:\s*\n| (?! ))")


@dataclass(frozen=True, slots=True)
class Markers:
    """What stands before and after the thinking of some models, as patterns.

    Attributes:
        models: who writes it.
        start: what follows is thinking. Without an `end` after it, all of it is.
        end: what stands before is thinking, with or without a `start`: a chat template may put that into the prompt.
        answer_end: after an `end`, what follows is no part of the answer.
        opens: `end` counts only in an output that begins with `start`, because both are words that answers have too.
    """

    models: str
    start: re.Pattern[str]
    end: re.Pattern[str]
    answer_end: re.Pattern[str] | None = None
    opens: bool = False

    @classmethod
    def of(cls, models: str, start: str, end: str, answer_end: str | None = None, *, opens: bool = False) -> Markers:
        flags = re.DOTALL | re.IGNORECASE
        close = None if answer_end is None else re.compile(answer_end, flags)
        return cls(models, re.compile(start, flags), re.compile(end, flags), close, opens)

    def answer_in(self, output: str) -> str:
        """Returns what is left of an output without the thinking that these markers show."""
        if self.opens:
            start = self.start.match(output)
            if start is None:
                return output
            ends = [end] if (end := self.end.search(output, start.end())) else []
        else:
            ends = list(self.end.finditer(output))
        answer = output[ends[-1].end() :] if ends else output
        if start := self.start.search(answer) if not (self.opens and ends) else None:
            answer = answer[: start.start()]
        return self.answer_end.split(answer)[0] if self.answer_end and ends else answer


TABLE: tuple[Markers, ...] = (
    Markers.of(
        "DeepSeek, Qwen, GLM, Kimi, MiniMax, Nemotron, Step, MiMo, Seed, K2, Hunyuan, OLMo, ERNIE, Granite 4, Marco-o1",
        rf"<{_TAG}(?:\s[^<>]{{0,99}})?>",
        rf"</{_TAG}\s*>(?:\s*<(?:answer|response|output|conclusion|solution)>)?",
        r"</(?:answer|response|output|conclusion|solution)>\s*\Z",
    ),
    Markers.of("Magistral", r"\[(?-i:THINK|THINKING|REASONING)\]", r"\[/(?-i:THINK|THINKING|REASONING)\]"),
    Markers.of(
        "Cohere Command",
        r"<\|START_THINKING\|>",
        r"<\|END_THINKING\|>|<\|START_(?:RESPONSE|TEXT)\|>",
        r"<\|END_(?:RESPONSE|TEXT)\|>",
    ),
    Markers.of(
        "Solar, which ends its thinking with a turn of its own",
        r"<\|think\|>(?!.*<\|/think)",
        r"<\|end\|>\s*(?:<\|(?:begin|start)\|>)?assistant\s*<\|content\|>",
        r"<\|end\|>",
    ),
    Markers.of("Kimi K3", r"<\|open\|>\s*think\s*<\|sep\|>",
               r"<\|(?:close\|>\s*think|open\|>\s*response)\s*<\|sep\|>(?:\s*<\|open\|>\s*response\s*<\|sep\|>)?",
               r"<\|close\|>\s*(?:response|message)\s*<\|sep\|>"),
    Markers.of(
        "PLaMo, OpenThinker and others with a special token at each side",
        rf"<[|｜](?:\w+:)?(?:(?:begin|start)[_▁](?:of[_▁])?)?{_WORD}(?:[_▁](?:begin|start))?(?::\w+)?[|｜]>",
        rf"<[|｜](?:(?:\w+:)?(?:/|end[_▁](?:of[_▁])?){_WORD}|{_WORD}[_▁]end)(?::\w+)?[|｜]>"
        r"(?:\s*<\|begin_of_solution\|>)?",
        r"<\|end_of_solution\|>",
    ),
    Markers.of("Gemma 4", r"<\|channel>(?:thought\b)?", r"<channel\|>"),
    # Only the word is left of <|channel>thought where a server removes special tokens, and nothing of the end.
    Markers.of("Gemma 4 without its special tokens", r"\A\s*(?-i:thought)\n", r"(?!)"),
    Markers.of("MedGemma", r"<unused94>", r"<unused95>"),
    Markers.of("Apertus", r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    Markers.of("Kimi-VL", r"◁think▷", r"◁/think▷"),
    Markers.of(
        "Granite 3",
        r"\s*here(?:['’]s| is) my thought process:",
        r"here(?:['’]s| is) my response:",
        opens=True,
    ),
    Markers.of("Ollama", r"\s*Thinking\.\.\.\n", r"\.\.\.done thinking\.", opens=True),
    Markers.of("Open WebUI", r"""\s*<details type=["']reasoning["'][^>]{0,99}>""", r"</details>", opens=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Channels:
    """Messages that begin with the name of their channel, one of which is for the user.

    Attributes:
        models: who writes them.
        header: what begins a message. Its group ``channel`` is the name.
        end: what ends it.
    """

    models: str
    header: re.Pattern[str]
    end: re.Pattern[str]

    def answer_in(self, output: str) -> str:
        """Returns the message for the user, or else the calls. An output without channels stays as it is."""
        headers = list(self.header.finditer(output))
        if not headers:
            return output
        answers, others = [], []
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            body = self.end.split(output[header.end() : following.start() if following else None], maxsplit=1)[0]
            recipient = _RECIPIENT.search(header[0])
            if header["channel"] in _FOR_THE_USER:
                answers.append(body)
            elif recipient or header["channel"] not in _THINKING:
                others.append(f"{recipient[0]} {body}" if recipient else body)
        return answers[-1] if answers else "\n".join(others)


_FOR_THE_USER = ("final", "user", "text")
_THINKING = ("analysis", "self", "thinking")
_RECIPIENT = re.compile(r"to=functions\.[\w.-]{0,99}?(?=commentary|analysis|[^\w.-]|\Z)")
_HARMONY = "analysis|commentary|final"

CHANNELS: tuple[Channels, ...] = (
    Channels(
        "gpt-oss",
        re.compile(
            r"(?:<\|start\|>[^<]{0,99})?<\|channel\|>\s{0,9}(?P<channel>\w{1,30})[^<]{0,99}(?:<\|constrain\|>[^<]{0,99})?<\|message\|>"
        ),
        re.compile(r"<\|(?:end|return|call|start|channel)\|>"),
    ),
    # "analysisWe need ...assistantfinalIt is 7." The first word is a channel only where no answer would have it.
    Channels(
        "gpt-oss without its special tokens",
        re.compile(
            rf"""
              (?: \A\s*(?=(?:{_HARMONY})(?:[^\Wa-z_]|["'*`{{\[\#]|\s+to=functions\.)
                          |(?:{_HARMONY}).*assistant\s*(?:\s+to=functions\.[\w.-]{{1,99}}?)?(?:{_HARMONY}))
                | assistant(?:\s+to=functions\.[\w.-]{{1,99}}?)?(?=(?:{_HARMONY}))
                | (?:\A|(?<=\n))assistant\s+(?=(?:{_HARMONY})\s*\n)
              )
              (?P<channel>{_HARMONY})
              (?:\s+to=functions\.[\w.-]{{1,99}}(?:\s+json)?(?=\s|\{{))?
              (?:\s+json(?=\s*\{{)|json(?=\{{))?
            """,
            re.VERBOSE | re.DOTALL,
        ),
        re.compile(r"(?!)"),
    ),
    Channels(
        "Muse",
        re.compile(r"(?:<\|start\|>assistant\s*)?to=(?P<channel>[^\s<]{1,99})<\|message\|>"),
        re.compile(r"<\|(?:eom|eot)\|>"),
    ),
    Channels(
        "Inkling",
        re.compile(r"(?:<\|message_model\|>[^<]{0,99})?<\|content_(?P<channel>thinking|text|invoke_tool_\w+)\|>"),
        re.compile(r"<\|(?:end_message|content_model_end_sampling|message_model)\|>"),
    ),
)


def answer_in(output: str, more: Iterable[Markers] = ()) -> str:
    """Returns the output without its thinking, and otherwise as it is. Thinking that does not end is all thinking.

    Args:
        more: markers that only the model asked has.
    """
    rows: list[Channels | Markers] = [*CHANNELS, *TABLE, *more]
    answer = output
    for row in rows:
        answer = row.answer_in(answer)
    return answer if answer == output else _BLANK_LINES.sub("", answer)


def answer_of(output: str) -> str:
    """Returns the output without its thinking, stripped of surrounding white space."""
    return answer_in(output).strip()


def opening_in(prompt_end: str, more: Iterable[Markers] = ()) -> str:
    """Returns the marker with which a prompt ends, so that its output begins inside the thinking; empty without one."""
    text = prompt_end.rstrip()
    for channels in CHANNELS:
        for header in channels.header.finditer(text):
            if header.end() == len(text) and header["channel"] in _THINKING:
                return header[0]
    starts = (start for row in (*TABLE, *more) for start in row.start.finditer(text))
    return next((start[0] for start in starts if start.end() == len(text)), "")


def ends_thinking(output: str) -> bool:
    """Returns whether an output is inside its thinking when it ends."""
    before_its_end = _LAST_TOKEN.sub(rf"{GOING_ON}\g<0>", output)
    return not any(GOING_ON.strip() in answer_of(text) for text in (f"{output}{GOING_ON}", before_its_end))


def is_only_thinking(output: str) -> bool:
    """Returns whether an output has thinking and no answer."""
    return bool(output.strip()) and not answer_of(output)
