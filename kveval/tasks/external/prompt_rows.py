"""Reads the user's own prompts: a JSON Lines file with one prompt and its expected answer on each line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kveval.config.messages import explain, shown
from kveval.errors import ConfigError, nearest
from kveval.tasks.builders.base import ChatForm
from kveval.tasks.external.fixed_prompts import FixedPrompt, FixedPromptTask
from kveval.tasks.external.row_scorers import SCORERS, score_row
from kveval.tasks.references.form import ReferenceForm
from kveval.tasks.references.reference import ANSWER, Piece, Reference, joint
from kveval.tasks.scoring.json_answers import loads
from kveval.tasks.task import Task

FAMILY = "own"
DEFAULT_OUTPUT_TOKENS = 256
# The longest contexts have ten million tokens of some four bytes each.
_MOST_ROW_BYTES = 64 << 20
_MOST_FILE_BYTES = 1 << 30

Text = Annotated[str, Field(min_length=1, strict=True)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Message(_Row):
    """A message as chat endpoints take it. It has `content` unless it has `tool_calls`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, Field(strict=True)] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class Function(_Row):
    name: Text
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Row):
    type: Literal["function"]
    function: Function


class PromptRow(_Row):
    """One line of the file.

    Attributes:
        prompt: one user turn; a model without a chat template continues it. A row has either this or `messages`.
        tools: functions the model may call.
        answer: the right answer, in the form the scorer takes.
        answers: several answers, each of which is right.
        scorer: a key of `SCORERS`.
        cluster: rows of one cluster share a document or a conversation, so they are not independent.
        reference: the right answer as the model would write it, to ask how probable it is.
        lead: words of the model before the reference, with the space between the two.
    """

    id: str | int | None = None
    prompt: Text | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: Annotated[list[Tool], Field(min_length=1)] | None = None
    answer: Any = None
    answers: Annotated[list[Any], Field(min_length=1)] | None = None
    scorer: str = "contains"
    cluster: str | int | None = None
    max_output_tokens: Annotated[int, Field(gt=0, strict=True)] = DEFAULT_OUTPUT_TOKENS
    reference: Text | None = None
    lead: Text | None = None

    @field_validator("scorer")
    @classmethod
    def _known_scorer(cls, name: str) -> str:
        if name not in SCORERS:
            raise ValueError(f"{name!r} is not a scorer; {nearest(name, SCORERS)}")
        return name

    @field_validator("messages")
    @classmethod
    def _asks(cls, messages: list[Message] | None) -> list[Message] | None:
        for position, message in enumerate(messages or ()):
            if message.content is None and not message.tool_calls:
                raise ValueError(f"message {position} has no content; use: text")
        if messages and messages[-1].role not in ("user", "tool"):
            raise ValueError(f"the last message is of role {messages[-1].role!r}; use: user or tool")
        return messages


def read_prompts(path: Path, name: str, samples: int | None = None) -> FixedPromptTask:
    """Reads a file of prompts as a task.

    Args:
        samples: how many rows to take from the top; None takes all.

    Raises:
        ConfigError: the file cannot be read, or a row is wrong. Names file, line number, key and value on one line.
    """
    content = _content(path)
    rows, problems = [], []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_prompt(f"{path.name} line {number}", _parsed(line)))
        except ValueError as error:
            problems.append((number, str(error)))
    if problems:
        number, first = problems[0]
        others = f" (wrong too: line {', '.join(str(n) for n, _ in problems[1:10])})" if len(problems) > 1 else ""
        raise ConfigError(f"{path} line {number}: {first}{others}")
    if not rows:
        raise ConfigError(f"{path}: has no prompts; use: one JSON object on each line")
    if samples is not None and samples > len(rows):
        raise ConfigError(f"tasks: samples={samples} of {path}; use: up to {len(rows)}, the rows it has")
    rows = rows[:samples]
    chat_form: ChatForm | None = "tools" if any(row.tools for row in rows) else None
    return FixedPromptTask(_task(path, name, chat_form, hashlib.sha256(content).hexdigest()), lambda _: rows)


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"tasks: {path} cannot be read (not a file); use: a JSON Lines file")
        size = path.stat().st_size
        if size > _MOST_FILE_BYTES:
            raise ConfigError(f"tasks: {path} has {size:,} bytes; use: files of up to {_MOST_FILE_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"tasks: {path} cannot be read ({error.strerror}); use: a JSON Lines file") from error


def _task(path: Path, name: str, chat_form: ChatForm | None, sha256: str) -> Task:
    return Task(
        name=name,
        family=FAMILY,
        version="1",
        description=f"the prompts of {path}",
        render=lambda doc: str(doc["question"]),
        score=score_row,
        builder=None,
        chat_form=chat_form,
        max_output_tokens=DEFAULT_OUTPUT_TOKENS,
        metadata={"sha256": sha256},
        reference=ReferenceForm(none="its row gives no reference"),
    )


def _parsed(line: bytes) -> PromptRow:
    if len(line) > _MOST_ROW_BYTES:
        raise ValueError(f"has {len(line):,} bytes, which no model reads; use: rows of up to {_MOST_ROW_BYTES:,}")
    try:
        text = line.decode("utf-8")
        data = loads(text)
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start})") from error
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair, which is not text") from error
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f'{shown(data)} is not an object; use: {{"prompt": ..., "answer": ...}}')
    try:
        row = PromptRow.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, PromptRow)) from error
    for problem in _conflicts(row):
        raise ValueError(problem)
    return row


def _conflicts(row: PromptRow) -> Iterator[str]:
    """Yields what is wrong between keys that are right alone."""
    scorer = SCORERS[row.scorer]
    if (row.prompt is None) == (row.messages is None):
        yield f"prompt, messages: {'neither' if row.prompt is None else 'both'} given; use: one of them"
    if row.answer is not None and row.answers is not None:
        yield "answer, answers: both given; use: one of them"
    null = scorer.takes_null and "answer" in row.model_fields_set
    given = row.answers is not None or row.answer is not None or null
    if scorer.reference is None and given:
        comparing = ", ".join(name for name, one in SCORERS.items() if one.reference)
        yield f"scorer: {row.scorer!r} with an answer; use: no answer, or {comparing}"
    if scorer.reference is not None and not given:
        yield f"answer: not given, and scorer {row.scorer!r} needs one; use: answer, answers, or scorer none"
    if scorer.needs_tools and not row.tools:
        yield f"scorer: {row.scorer!r} without tools; use: tools beside it"
    if row.lead is not None and row.reference is None:
        yield "lead: given without a reference; use: reference beside it"
    if row.lead and row.reference and row.reference[0].isalnum() and joint(row.lead, row.reference):
        yield f"lead: {shown(row.lead)} runs into the reference {shown(row.reference)}; use: a space between them"


def _prompt(where: str, row: PromptRow) -> FixedPrompt:
    doc: dict[str, Any] = {"scorer": row.scorer}
    if SCORERS[row.scorer].reference is None:
        doc["scored"] = False
    if row.id is not None:
        doc["id"] = row.id
    messages = row.messages or [Message(role="user", content=row.prompt)]
    answers = tuple(_references(row))
    conversation = [message.model_dump(exclude_none=True) for message in messages]
    return FixedPrompt(
        where=where,
        content=conversation if row.tools or row.prompt is None else row.prompt,
        answers=answers,
        max_output_tokens=row.max_output_tokens,
        tools=tuple(tool.model_dump(exclude_none=True) for tool in row.tools or ()),
        cluster=None if row.cluster is None else str(row.cluster),
        doc=doc,
        reference=_reference(row, answers),
    )


def _reference(row: PromptRow, answers: Sequence[str]) -> Reference | None:
    """Returns what to force. Raises ValueError if the row's own scorer calls it wrong."""
    if row.reference is None:
        return None
    lead = row.lead or ""
    if SCORERS[row.scorer].reference is not None:
        tried = [
            score_row({"scorer": row.scorer, "answers": answers}, text)
            for text in (row.reference, lead + row.reference)
        ]
        if not any(metrics["score"] == 1.0 for metrics in tried):
            raise ValueError(
                f"reference: {shown(row.reference)} is wrong by scorer {row.scorer!r}; use: a right answer"
            )
    return Reference((Piece(lead), Piece(row.reference, ANSWER)))


def _references(row: PromptRow) -> Iterator[str]:
    reference = SCORERS[row.scorer].reference
    if reference is None:
        return
    key, answers = ("answers", row.answers) if row.answers is not None else ("answer", [row.answer])
    for answer in answers:
        try:
            yield reference(answer)
        except ValueError as error:
            raise ValueError(f"{key}: {shown(answer)} with scorer {row.scorer!r}; {error}") from error
