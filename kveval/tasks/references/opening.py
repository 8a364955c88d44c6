"""What a reasoning model writes before its answer when it does not think: an empty block of thinking."""

from __future__ import annotations

import re

_OPENED = re.compile(r"(?:<(?P<tag>[\w:|.-]*think[\w]*)>|\[(?P<word>THINK)\])\s*\Z", re.IGNORECASE)
_CLOSED = re.compile(r"(?:</[\w:|.-]*think[\w]*>|\[/THINK\])\s*\Z", re.IGNORECASE)
_HARMONY_START, _HARMONY_ANSWER = "<|start|>assistant", "<|channel|>final<|message|>"


def opening_of(prompt_end: str, template: str) -> str:
    """Returns what to force between a prompt and an answer. Empty for a model that does not think.

    A template that opens the thinking gets it closed. A model whose template knows thinking and leaves it to the model
    gets an empty block, as Qwen3's template writes with ``enable_thinking: false``. gpt-oss gets its final channel.

    Args:
        prompt_end: the text of the last tokens of a prompt.
        template: the source of the model's chat template; empty if the prompt does not come from one.
    """
    opened = _OPENED.search(prompt_end)
    if opened:
        return f"\n</{opened['tag']}>\n\n" if opened["tag"] else "[/THINK]"
    if not template or _CLOSED.search(prompt_end):
        return ""
    if prompt_end.endswith(_HARMONY_START) and _HARMONY_ANSWER in template:
        return _HARMONY_ANSWER
    if "<think>" in template and "</think>" in template:
        return "<think>\n\n</think>\n\n"
    return ""
