"""A forced answer of a reasoning model stands after an empty block of thinking."""

import pytest

from kveval.tasks.references.opening import opening_of

QWEN = "{%- if enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
GPT_OSS = "<|start|>assistant<|channel|>final<|message|>{{ content }}"


@pytest.mark.parametrize(
    ("prompt_end", "template", "opening"),
    [
        ("<|im_start|>assistant\n", "{{ messages }}", ""),
        ("The text.\n\nAnswer:", "", ""),
        ("He wrote <think> on the wall. Why?", "", ""),
        ("<|im_start|>assistant\n<think>\n", QWEN, "\n</think>\n\n"),
        ("<｜Assistant｜><think>\n", "{{ '<think>\\n' }}", "\n</think>\n\n"),
        ("<seed:bos>assistant\n<seed:think>", "", "\n</seed:think>\n\n"),
        ("[INST] x [/INST][THINK]", "", "[/THINK]"),
        ("[INST] x [/INST][REASONING]", "", "[/REASONING]"),
        ("<|assistant|><think:6124c78e>", "", "\n</think:6124c78e>\n\n"),
        ("<|im_assistant|>◁think▷", "", "◁/think▷"),
        ("<|start|>assistant<|channel|>analysis<|message|>", GPT_OSS, ""),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", QWEN, ""),
        ("<｜Assistant｜></think>", "<think></think>", ""),
        ("<|assistant|><think></think:6124c78e>", "<think></think>", ""),
        ("<|im_start|>assistant\n", QWEN, "<think>\n\n</think>\n\n"),
        ("<|end|><|start|>assistant", GPT_OSS, "<|channel|>final<|message|>"),
    ],
)
def test_what_stands_between_a_prompt_and_an_answer(prompt_end: str, template: str, opening: str) -> None:
    assert opening_of(prompt_end, template) == opening
