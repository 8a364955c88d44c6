"""What a reasoning model writes before its answer when it does not think: an empty block of thinking."""

from __future__ import annotations

import re

from kveval.tasks.scoring.reasoning import answer_of, opening_in

_TAG = re.compile(r"([<\[◁])([^\s<>\[\]◁▷]+)[^<>\[\]◁▷]*([>\]▷])")
_HARMONY_START, _HARMONY_ANSWER = "<|start|>assistant", "<|channel|>final<|message|>"


def opening_of(prompt_end: str, template: str) -> str:
    """Returns what to force between a prompt and an answer. Empty for a model that does not think.

    A template that opens the thinking gets it closed. A model whose template knows thinking and leaves it to the model
    gets an empty block, as Qwen3's template writes with ``enable_thinking: false``. gpt-oss gets its final channel.

    Args:
        prompt_end: the text of the last tokens of a prompt.
        template: the source of the model's chat template; empty if the prompt does not come from one.
    """
    opened = opening_in(prompt_end)
    if opened:
        return _closing(opened)
    if not template or answer_of(f"{prompt_end}a") == "a":
        return ""
    if prompt_end.endswith(_HARMONY_START) and _HARMONY_ANSWER in template:
        return _HARMONY_ANSWER
    if "<think>" in template and "</think>" in template:
        return "<think>\n\n</think>\n\n"
    return ""


def _closing(opened: str) -> str:
    """Returns what ends the thinking that a tag begins. Empty if answers are not read so: then nothing is known."""
    tag = _TAG.fullmatch(opened)
    if tag is None:
        return ""
    closing = f"{tag[1]}/{tag[2]}{tag[3]}"
    closing = f"\n{closing}\n\n" if tag[1] == "<" else closing
    return closing if answer_of(f"{opened}{closing}a") == "a" else ""
