"""Asks for function calls: the functions stand in a long catalogue, or the arguments far back in a conversation."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kveval.errors import ConfigError
from kveval.tasks.builders.base import ChatBuilder, Haystack, Needle, Question, check_choice, depths_percent
from kveval.tasks.builders.draws import draw_names, is_absent
from kveval.tasks.builders.sources import Cut, ElasticSource
from kveval.tasks.builders.turns import exchange, messages, turns
from kveval.tasks.corpora.bfcl import Kind, ToolFunction, ToolRequest, functions, requests
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.sample import Chat

NO_CALL = "no function"
_ANSWERABLE: tuple[Kind, ...] = ("simple", "multiple", "parallel")
_TOOL_CHOICES = ("auto", "required")
_FIXED_TOKENS = 300
_ACKNOWLEDGED = (
    "I have noted the task.",
    "Noted for later.",
    "I will do it when you say so.",
    "All right, later then.",
)


class Catalogue(ElasticSource):
    """BFCL's functions, one JSON object a line, shuffled anew for every haystack."""

    name = "bfcl functions"

    def order(self, rng: random.Random) -> Iterator[int]:
        return iter(rng.sample(range(len(functions())), len(functions())))

    def prose(self, index: int) -> str:
        return str(functions()[index].tool["description"])

    def stretched(self, index: int, prose: str) -> str:
        return "\n" + json.dumps({**functions()[index].tool, "description": prose}, ensure_ascii=False)


@dataclass(frozen=True)
class ToolTask(ChatBuilder):
    """Asks requests that take function calls. Subclasses say where the functions and the arguments stand.

    Attributes:
        absent_share: share of requests that no function serves.
        tool_choice: ``auto``, or ``required``, where the engine forces a call and none can be absent.
    """

    absent_share: float = 0.0
    tool_choice: str = "auto"

    chat_form = "tools"
    tokens_per_question: ClassVar = 450

    def __post_init__(self) -> None:
        check_choice("tool_choice", self.tool_choice, _TOOL_CHOICES)
        if self.tool_choice == "required" and self.absent_share:
            raise ConfigError(
                f"absent_share={self.absent_share} with tool_choice='required', which forces a call; use 0"
            )

    def most_questions(self, context_length: int) -> int:
        """Counts questions whose functions fit into a context and leave space for others."""
        return max((context_length - _FIXED_TOKENS) // self.tokens_per_question, 1)

    def _kinds(self, numbers: range, instead: Kind) -> list[Kind]:
        """Takes the answerable kinds in turn, and `instead` where no function may serve the request."""
        return [instead if is_absent(n, self.absent_share) else _ANSWERABLE[n % len(_ANSWERABLE)] for n in numbers]


class InCatalogue(ToolTask):
    """Plants the functions of each request in a long catalogue; the request comes last.

    A request that no function serves is one of BFCL's simple ones whose function is left out, with all like it.
    """

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        kinds = self._kinds(numbers, "simple")
        absent = {number for number in numbers if is_absent(number, self.absent_share)}
        asked = _draw(kinds, rng, lambda request, number: () if number in absent else request.candidates, numbers)
        present = [request for request, number in zip(asked, numbers, strict=True) if number not in absent]
        depths = iter(_shuffled(depths_percent(max(len(present), 1), depth_shift), rng))
        needles: list[Needle] = []
        questions: list[Question] = []
        for request, number in zip(asked, numbers, strict=True):
            if number in absent:
                questions.append(_question(request, request.text, (), absent=True))
                continue
            names = set(request.functions)
            own = [function for function in request.candidates if function.name in names]
            others = [function for function in request.candidates if function.name not in names]
            questions.append(_question(request, request.text, (len(needles),)))
            needles.append(Needle(own[0].line, next(depths), lead="\n"))
            needles += [Needle(function.line, rng.uniform(0, 100), lead="\n") for function in (*own[1:], *others)]
        unwanted = {
            f'"name": "{function.name}"'
            for function in functions()
            if any(request.may_be_served_by(function) for request in asked)
        }
        unwanted |= {f'"name": "{f.name}"' for request in present for f in request.candidates}
        return Haystack(needles, questions, frozenset(unwanted), _CATALOGUE, Cut.PIECE)

    def chat(self, pieces: Sequence[str], fields: Mapping[str, Any]) -> Chat:
        tools = [json.loads(piece) for piece in pieces]
        return Chat(({"role": "user", "content": fields["question"]},), _tools(tools), self.tool_choice)


class InConversation(ToolTask):
    """Makes every request under its own name somewhere in a long conversation, with a few functions before it.

    The last turn gives only the name. A request that no function serves is one of BFCL's irrelevant ones.
    """

    tokens_per_question: ClassVar = 650

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        asked = _draw(self._kinds(numbers, "irrelevant"), rng, lambda request, _: request.candidates, numbers)
        offered = {function.name: function for request in asked for function in request.candidates}
        catalogue = "\n".join(function.line for function in _shuffled(list(offered.values()), rng))
        labels = draw_names(len(asked), rng)
        depths = _shuffled(depths_percent(len(asked), depth_shift), rng)
        needles = [
            Needle(exchange(f"Task {label}, for later: {request.text}", rng.choice(_ACKNOWLEDGED)), depth, lead="\n\n")
            for label, request, depth in zip(labels, asked, depths, strict=True)
        ]
        questions = [
            _question(
                request,
                f"Now carry out task {label}, exactly as I gave it.",
                (k,),
                absent=request.kind == "irrelevant",
                catalogue=catalogue,
            )
            for k, (label, request) in enumerate(zip(labels, asked, strict=True))
        ]
        return Haystack(needles, questions, frozenset(labels), None, Cut.PIECE, turns)

    def chat(self, pieces: Sequence[str], fields: Mapping[str, Any]) -> Chat:
        tools = [json.loads(line) for line in fields["catalogue"].splitlines()]
        asked = {"role": "user", "content": fields["question"]}
        return Chat((*messages(pieces), asked), _tools(tools), self.tool_choice)


def _draw(
    kinds: Sequence[Kind],
    rng: random.Random,
    planted: Callable[[ToolRequest, int], Sequence[ToolFunction]],
    numbers: range,
) -> list[ToolRequest]:
    """Draws one request of each kind, so that no function `planted` for one may serve another."""
    decks = {kind: iter(rng.sample(requests(kind), len(requests(kind)))) for kind in dict.fromkeys(kinds)}
    drawn: list[ToolRequest] = []
    beside: list[tuple[ToolFunction, ...]] = []
    for kind, number in zip(kinds, numbers, strict=True):
        for request in decks[kind]:
            own = tuple(planted(request, number))
            served = any(request.may_be_served_by(function) for other in beside for function in other)
            serves = any(other.may_be_served_by(function) for other in drawn for function in own)
            if not served and not serves:
                drawn.append(request)
                beside.append(own)
                break
        else:
            raise ConfigError(f"{len(kinds)} requests in one haystack; ask fewer questions about it")
    return drawn


def _question(
    request: ToolRequest, text: str, needles: tuple[int, ...], *, absent: bool = False, **fields: str
) -> Question:
    expected = [] if absent else list(request.expected)
    declared = [] if absent else list(request.functions.values())
    return Question(
        {
            "question": text,
            "kind": "irrelevant" if absent else request.kind,
            "expected": json.dumps(expected, ensure_ascii=False),
            "functions": json.dumps(declared, ensure_ascii=False),
            **fields,
        },
        (NO_CALL if absent else json.dumps(request.reference, ensure_ascii=False),),
        needles,
        absent=absent,
    )


def _tools(described: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple({"type": "function", "function": function} for function in described)


def _shuffled(values: list[Any], rng: random.Random) -> list[Any]:
    return rng.sample(values, len(values))


_CATALOGUE = Catalogue()
tools_catalogue = HaystackDataset(InCatalogue)
tools_conversation = HaystackDataset(InConversation)
