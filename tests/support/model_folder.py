"""A checkpoint folder with a small real tokenizer."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m['content'] }}<|stop|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ mood }}"
)


def model_dir(
    path: Path, template: str | None = TEMPLATE, vocab_size: int | None = None, special: Sequence[str] = ()
) -> Path:
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<|user|>", "<|assistant|>", "<|stop|>", *special]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train([], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", additional_special_tokens=special[1:])
    fast.chat_template = template
    fast.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"vocab_size": vocab_size or tokenizer.get_vocab_size()}))
    return path


def write_safetensors(path: Path, names: list[str], shapes: Mapping[str, list[int]] | None = None) -> int:
    """Write tensors of four bytes in all, whatever their shapes say; return the size of the file."""
    header = json.dumps(
        {name: {"dtype": "F32", "shape": (shapes or {}).get(name, []), "data_offsets": [0, 4]} for name in names}
    ).encode()
    return path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
