"""Assembles haystacks for chat endpoints: whole messages or tools, exact in the tokens of the chat template.

The server renders and tokenizes a conversation itself, so token arrays cannot be put together as for other prompts.
Whole pieces fill the context nearly, and the prose of a last one grows until the rendered prompt has its length.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.placement import SLACK_TOKENS
from kveval.tasks.assembly.planned import PlannedHaystack, builder_of, planned_haystacks
from kveval.tasks.builders.base import ChatBuilder, Question
from kveval.tasks.builders.sources import ElasticSource
from kveval.tasks.sample import Chat, Prompt, Sample, shared_prefix
from kveval.tasks.task import Cell, Task

_LEAST_WORDS = 8
_PROSE_PIECES = 40
_LAST_PIECES = 24
_TRIES = 24
_EXCERPT_CHARACTERS = 400


def chat_samples(task: Task, cell: Cell, template: ChatTemplate) -> list[Sample]:
    """Builds all samples of a cell, haystack by haystack; ``len(prompt)`` is in [context_length - 8, context_length].

    Depths are counted in tokens of whole pieces: needles stand between messages or tools.

    Raises:
        PlanError: a haystack does not fit its context_length, or the filler is too short for it.
    """
    builder = builder_of(task)
    if not isinstance(builder, ChatBuilder):
        raise PlanError(f"task {task.name!r} can be asked as text only; its builder is not a ChatBuilder")
    return [
        sample
        for planned in planned_haystacks(task, cell)
        for sample in _ChatHaystack(task, builder, cell, template, planned).samples()
    ]


class _ChatHaystack:
    """One haystack while it is built. `_filler` holds piece indexes; `_elastic` is the piece that grows."""

    def __init__(
        self, task: Task, builder: ChatBuilder, cell: Cell, template: ChatTemplate, planned: PlannedHaystack
    ) -> None:
        self._task, self._builder, self._cell, self._template = task, builder, cell, template
        self._planned, self._plan = planned, planned.haystack
        source = planned.source(cell)
        if not isinstance(source, ElasticSource):
            raise PlanError(f"{planned.where}: its filler {source.name!r} cannot be stretched; use an ElasticSource")
        self._source = source
        self._counts = _piece_counts(self._source, template)
        self._planted = [needle.lead + needle.text for needle in self._plan.needles]
        self._planted_tokens = [len(template.encode(text)) for text in self._planted]
        needles = self._plan.needles
        self._by_depth = sorted(range(len(needles)), key=lambda k: needles[k].depth_percent)
        self._order = self._allowed(source.order(planned.rng))
        self._elastic = self._next()
        self._words: list[str] = self._source.prose(self._elastic).split()
        self._filler: list[int] = []
        self._places: list[int] = [0] * len(self._planted)

    def _allowed(self, order: Iterator[int]) -> Iterator[int]:
        forbidden = {text.lower() for text in self._plan.forbidden}
        for index in order:
            text = self._source.text(index).lower()
            if not any(string in text for string in forbidden):
                yield index

    def _next(self) -> int:
        index = next(self._order, None)
        if index is None:
            raise PlanError(
                f"haystack style {self._source.name!r} is used up before context_length {self._cell.context_length} of "
                f"task {self._task.name!r}; text is never repeated, so use a shorter context_length"
            )
        return index

    def samples(self) -> list[Sample]:
        self._fill()
        self._place()
        spare = islice(self._order, _PROSE_PIECES)
        self._words = " ".join(self._source.prose(index) for index in (self._elastic, *spare)).split()
        rate = max(len(self._template.encode(" ".join(self._words))) / len(self._words), 1.0)
        words = _LEAST_WORDS
        made = []
        for question in self._plan.questions:
            words, chat, ids = self._exact(question, words, rate)
            made.append((question, words, chat, ids))
        shared = made[0][3]
        for _, _, _, ids in made:
            shared = shared_prefix(shared, ids)
        return [self._sample(question, words, chat, shared, ids) for question, words, chat, ids in made]

    def _pieces(self, words: int) -> list[str]:
        """Returns filler and needles in their places, and the elastic piece with so many words."""
        pieces: list[str] = []
        used = 0
        for k in self._by_depth:
            pieces += [self._source.text(index) for index in self._filler[used : self._places[k]]]
            pieces.append(self._planted[k])
            used = self._places[k]
        pieces += [self._source.text(index) for index in self._filler[used:]]
        return [*pieces, self._source.stretched(self._elastic, " ".join(self._words[:words]))]

    def _render(self, question: Question, words: int) -> tuple[Chat, np.ndarray]:
        chat = self._builder.chat(self._pieces(words), question.fields)
        chat = replace(chat, template_kwargs=self._template.variables)
        return chat, self._template.token_ids(chat.messages, chat.tools)

    def _fill(self) -> None:
        """Chooses filler so that the longest prompt has space for little more than the elastic piece's first words."""
        lengths = [len(self._render(question, _LEAST_WORDS)[1]) for question in self._plan.questions]
        self._refuse_short(max(lengths))
        longest = self._plan.questions[lengths.index(max(lengths))]
        around = 0.0  # what the template adds to a piece
        for _ in range(_TRIES):
            used = len(self._render(longest, _LEAST_WORDS)[1])
            if self._filler:
                around = (used - max(lengths) - sum(map(self._counts, self._filler))) / len(self._filler)
            free: float = self._cell.context_length - used
            if free >= 0 and not self._add(free, around):
                return
            while free < 0:
                free += self._counts(self._filler.pop()) + around
        while len(self._render(longest, _LEAST_WORDS)[1]) > self._cell.context_length:
            self._filler.pop()

    def _add(self, free: float, around: float) -> bool:
        """Adds pieces while they fit, then the largest of the next few that fits. Says whether whole pieces fitted."""
        before = len(self._filler)
        while self._counts(index := self._next()) + around <= free:
            self._filler.append(index)
            free -= self._counts(index) + around
        fitting = [i for i in (index, *islice(self._order, _LAST_PIECES)) if self._counts(i) + around <= free]
        if fitting:
            self._filler.append(max(fitting, key=self._counts))
        return len(self._filler) > before

    def _refuse_short(self, least: int) -> None:
        if least > self._cell.context_length:
            raise PlanError(
                f"{self._planned.where}: the context is too short for its needles; use: {least} tokens or more "
                f"({len(self._planted)} needles need {sum(self._planted_tokens)})"
            )

    def _place(self) -> None:
        """Puts each needle between the pieces where its depth is nearest to the asked one."""
        filler = [self._counts(index) for index in self._filler]
        total = sum(filler) + sum(self._planted_tokens) + self._elastic_tokens(_LEAST_WORDS)
        starts = np.concatenate(([0], np.cumsum(filler)))
        at, before = 0, 0
        for k in self._by_depth:
            span = max(total - self._planted_tokens[k], 1)
            target = self._plan.needles[k].depth_percent / 100 * span - before
            at += int(np.argmin(np.abs(starts[at:] - target)))
            self._places[k] = at
            before += self._planted_tokens[k]

    def _elastic_tokens(self, words: int) -> int:
        return len(self._template.encode(self._source.stretched(self._elastic, " ".join(self._words[:words]))))

    def _exact(self, question: Question, words: int, rate: float) -> tuple[int, Chat, np.ndarray]:
        """Fills the elastic piece to the context_length. The search begins at `words`; `rate` is tokens of a word."""
        target = self._cell.context_length - SLACK_TOKENS // 2
        for attempt in range(_TRIES):
            chat, ids = self._render(question, words)
            off = target - len(ids)
            if -SLACK_TOKENS // 2 <= off <= SLACK_TOKENS // 2:
                return words, chat, ids
            step = round(off / rate) if attempt < _TRIES // 2 else 0
            words = min(max(words + (step or (1 if off > 0 else -1)), 1), len(self._words))
        raise PlanError(
            f"{self._planned.where}: no prompt within {SLACK_TOKENS} tokens below it can be made with this "
            f"chat template; the last has {len(ids)}"
        )

    def _sample(self, question: Question, words: int, chat: Chat, shared: np.ndarray, ids: np.ndarray) -> Sample:
        depths = [self._depth_percent(k, words) for k in question.needles]
        excerpts = [" ".join(self._planted[k].split())[:_EXCERPT_CHARACTERS] for k in question.needles]
        task, cell = self._task, self._cell
        identity = [task.name, task.version, cell.context_length, task.max_output_tokens, chat.tool_choice]
        address = json.dumps([*identity, bool(chat.tools), dict(chat.template_kwargs)], sort_keys=True).encode()
        own = [address, ids.astype("<i4").tobytes(), json.dumps(list(question.answers)).encode()]
        return Sample(
            sample_id=hashlib.sha256(b"".join(own)).hexdigest()[:16],
            haystack_id=hashlib.sha256(address + shared.astype("<i4").tobytes()).hexdigest()[:16],
            task=task.name,
            family=task.family,
            context_length=cell.context_length,
            prompt=Prompt(shared, ids[len(shared) :]),
            depth_percent=depths[0] if len(depths) == 1 else None,
            doc={
                **self._planned.doc(question, depths, excerpts, self._source),
                "asked_through": "chat endpoint with tools" if chat.tools else "chat endpoint",
            },
            max_output_tokens=task.max_output_tokens,
            chat=chat,
        )

    def _depth_percent(self, k: int, words: int) -> float:
        before = sum(self._planted_tokens[other] for other in self._by_depth[: self._by_depth.index(k)])
        before += sum(map(self._counts, self._filler[: self._places[k]]))
        total = sum(map(self._counts, self._filler)) + sum(self._planted_tokens) + self._elastic_tokens(words)
        return float(round(100 * before / max(total - self._planted_tokens[k], 1), 3))


@lru_cache(maxsize=8)
def _piece_counts(source: ElasticSource, template: ChatTemplate) -> Callable[[int], int]:
    """Returns a function that counts the tokens of a piece by its index, each piece once."""

    @cache
    def tokens(index: int) -> int:
        return len(template.encode(source.text(index)))

    return tokens
