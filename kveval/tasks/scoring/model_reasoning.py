"""How the model of a run marks its thinking, beyond the table for all models, and what of its output is its answer."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kveval.errors import ConfigError, PlanError
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.tokenizer import Tokenizer
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.reasoning import CHANNELS, Markers, answer_in, opening_in

_THOUGHT, _SAID = "KVEVALQTHOUGHTQMARKER", "KVEVALQSAIDQMARKER"
_KEYS = ("reasoning_content", "reasoning", "thinking")
_LAST_MARKER = re.compile(r"(?:<[^<>]+>|\[[^\[\]]+\]|◁[^◁▷]+▷)\s*\Z")
_LONGEST_MARKER_CHARACTERS = 100
# Enough for what a chat template writes after the user's text.
_LAST_TOKENS = 24


@dataclass(frozen=True, slots=True)
class ModelReasoning:
    """Reads answers of one model. Without arguments it knows the table alone.

    Attributes:
        markers: the model's own, which the table does not have.
        tokenizer: spells the special tokens that a server may leave out of its text. None if it is not known.
    """

    markers: tuple[Markers, ...] = ()
    tokenizer: Tokenizer | None = None

    def answer_in(self, sample: Sample, output: str, token_ids: Sequence[int], finish_reason: str | None) -> str:
        """Returns the output without its thinking, and otherwise as it is.

        A prompt may end inside the thinking. Its output is thinking up to an end, and all of it without one. Only a
        chat endpoint may have removed thinking and end together, from an answer that is finished.

        Args:
            token_ids: of the output, as far as the server names them.
        """
        begun = "" if sample.chat is not None and finish_reason != "length" else self._opened_by(sample)
        spelled = self._spelled(output, token_ids)
        if spelled is not None and answer_in(spelled, self.markers) != spelled:
            return answer_in(begun + spelled, self.markers)
        return answer_in(begun + output, self.markers)

    def _opened_by(self, sample: Sample) -> str:
        if self.tokenizer is None:
            return ""
        tail = sample.prompt.tail[-_LAST_TOKENS:]
        ids = tail if len(tail) == _LAST_TOKENS else sample.prompt.token_ids()[-_LAST_TOKENS:]
        return opening_in(self.tokenizer.decode(ids), self.markers)

    def _spelled(self, output: str, token_ids: Sequence[int]) -> str | None:
        """Returns the output with its special tokens. None if it has none, or the ids are not those of the text."""
        special = self.tokenizer.special_ids if self.tokenizer else frozenset()
        ids = list(token_ids)
        while ids and ids[-1] in special:
            ids.pop()
        if self.tokenizer is None or special.isdisjoint(ids):
            return None
        plain = self.tokenizer.decode(token for token in ids if token not in special)
        return self.tokenizer.decode(ids) if "".join(plain.split()) == "".join(output.split()) else None


ANY_MODEL = ModelReasoning()


def read_reasoning(
    tokenizer: Tokenizer, template: ChatTemplate | None, parsers: Iterable[tuple[str, str]]
) -> ModelReasoning:
    """Reads how a model marks its thinking.

    Args:
        template: None for a model that is asked without one.
        parsers: the start and the end of thinking, as an engine's parsers name them.
    """
    pairs = [] if template is None else [("the model's chat template", *pair) for pair in _template_pairs(template)]
    pairs += [("a reasoning parser of the engine", *pair) for pair in parsers]
    markers = [one for models, start, end in pairs if (one := _markers(models, start, end)) is not None]
    return ModelReasoning(tuple(markers), tokenizer)


def _template_pairs(template: ChatTemplate) -> list[tuple[str, str]]:
    """Renders an answer with thinking, and returns what stands around the thinking."""
    asked: Mapping[str, str] = {"role": "user", "content": "?"}
    said = {"role": "assistant", "content": _SAID}
    try:
        opened, plain = template.text([asked]), template.text([asked, said])
        text = template.text([asked, {**said, **dict.fromkeys(_KEYS, _THOUGHT)}])
    except (ConfigError, PlanError):
        return []
    before, thought, rest = text.partition(_THOUGHT)
    between, answer, _ = rest.rpartition(_SAID)
    if not thought or not answer:
        return []
    begun = len(os.path.commonprefix([before, opened]))  # noqa: RUF071
    start = before[begun:].strip()
    # The opening of an answer may end inside the thinking, or with the marker of the assistant's turn.
    last = _LAST_MARKER.search(opened)
    if not start and last and not plain.partition(_SAID)[0].rstrip().endswith(last[0].strip()):
        start = last[0].strip()
    return [(start, between.strip())]


def _markers(models: str, start: str, end: str) -> Markers | None:
    """Returns markers that the table does not have. Those made of words count at the beginning of an output only."""
    if not start or not end or max(len(start), len(end)) > _LONGEST_MARKER_CHARACTERS:
        return None
    is_channel = any(channels.header.search(start) for channels in CHANNELS)
    if is_channel or (answer_in(f"{start}a{end}b").strip() == "b" and not answer_in(f"{start}a")):
        return None
    is_word = re.search(r"[<\[◁]", start) is None or re.search(r"[<\[◁]", end) is None
    return Markers.of(models, rf"\s*{re.escape(start)}" if is_word else re.escape(start), re.escape(end), opens=is_word)
