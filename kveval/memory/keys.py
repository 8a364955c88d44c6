"""Reads a model's config.json key by key, with the defaults that its class fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kveval.errors import ConfigError
from kveval.models.config_file import language_part
from kveval.models.folder import printable, shown

T = TypeVar("T")

# Far beyond any model. A larger number is a mistake, and would overflow.
_MOST = (1 << 31) - 1
# Sizes that a config may give as 0 where it means that the model has none (`get_head_size` in
# vllm/transformers_utils/model_arch_config_convertor.py). DeepSeek-OCR does.
_ZERO_IS_NOT_SET = ("head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim")

# Defaults of transformers' configuration classes for keys that published config.json files leave out
# (transformers/models/*/configuration_*.py, 5.19).
_GEMMA_HEADS = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "exaone4": {"sliding_window_pattern": 4},
    "falcon": {"multi_query": True},
    "gemma": {"num_key_value_heads": 16, "head_dim": 256},
    "gemma2": {**_GEMMA_HEADS, "sliding_window": 4096, "sliding_window_pattern": 2},
    "gemma3_text": {**_GEMMA_HEADS, "sliding_window": 4096, "sliding_window_pattern": 6},
    "gemma3n_text": {
        **_GEMMA_HEADS, "num_key_value_heads": 2, "sliding_window": 512, "sliding_window_pattern": 5,
        "num_kv_shared_layers": 15,
    },
    "gemma4_text": {**_GEMMA_HEADS, "sliding_window": 512, "global_head_dim": 512, "attention_k_eq_v": False},
    "gpt_bigcode": {"multi_query": True},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "sliding_window_pattern": 2},
    "jamba": {"num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4},
    "llama4_text": {
        "num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layer_interval": 4,
    },
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "olmo3": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "qwen2": {"use_sliding_window": False},
    "qwen2_moe": {"use_sliding_window": False},
    "qwen3": {"use_sliding_window": False},
    "qwen3_moe": {"use_sliding_window": False},
    "qwen3_next": {"num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4},
}  # fmt: skip

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Keys:
    """Looks keys up in the language model's part of a config.

    Attributes:
        source: what errors call the file.
        text: the part that describes the language model.
        root: the whole config.
    """

    source: str
    text: Mapping[str, Any]
    root: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any], source: str) -> Keys:
        """Return the keys of a parsed config.json. A multimodal model nests its language part in it."""
        nested = language_part(config)
        model_type = printable(nested.get("model_type") or config.get("model_type") or "")
        return cls(source, {**_DEFAULTS.get(model_type, {}), **nested, "model_type": model_type}, config)

    def changed(self, where: str, changes: Mapping[str, Any]) -> Keys:
        """Return these keys with some of them changed, as they are for one layer. `where` is what errors call it."""
        return Keys(f"{self.source}: {where}", {**self.text, **changes}, self.root)

    @property
    def model_type(self) -> str:
        """The architecture of the language model, "" when it is not named."""
        return str(self.text["model_type"])

    def get(self, *names: str) -> Any:
        """Return the value of the first of `names` that is set; None when no name is. JSON's null counts as not set."""
        return next((self.text[name] for name in names if self.is_set(name)), None)

    def is_set(self, name: str) -> bool:
        """Whether a key has a value. JSON's null counts as none, and so does 0 for the size of a head."""
        value = self.text.get(name)
        return value is not None and not (name in _ZERO_IS_NOT_SET and value == 0 and not isinstance(value, bool))

    def optional(self, *names: str) -> int | None:
        """Return a positive integer, or None when no key is set. Raises ConfigError: another value."""
        name = next((name for name in names if self.is_set(name)), None)
        if name is None:
            return None
        value = self.text[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST:
            raise self.error(name, f"{shown(value)} cannot be used; use a positive integer")
        return value

    def required(self, *names: str) -> int:
        """Return a positive integer. Raises ConfigError: no key is set, or another value."""
        value = self.optional(*names)
        if value is None:
            others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
            raise self.error(names[0] + others, "required to size the cache, not given; use a positive integer")
        return value

    def count(self, name: str) -> int:
        """Return an integer from 0, and 0 when the key is not set. Raises ConfigError: another value."""
        value = self.text.get(name)
        if value in (None, 0) and not isinstance(value, bool):
            return 0
        return self.required(name)

    def indices(self, name: str) -> list[int] | None:
        """Return a list of integers, or None when the key is not set. Raises ConfigError: another value."""
        return self._list(name, int, "a list of integers")

    def names(self, name: str) -> list[str] | None:
        """Return a string per layer, or None when the key is not set. Raises ConfigError: another value."""
        return self._list(name, str, "a list with one name per layer")

    def _list(self, name: str, kind: type[T], use: str) -> list[T] | None:
        value = self.text.get(name)
        if value is None or (isinstance(value, list) and all(isinstance(one, kind) for one in value)):
            return value
        raise self.error(name, f"{shown(value)} cannot be used; use {use}")

    def inner(self, name: str) -> Keys | None:
        """Return the keys of a mapping nested in this one, or None when there is none."""
        value = self.text.get(name)
        return (
            Keys(f"{self.source}: {name}", {"model_type": "", **value}, self.root) if isinstance(value, dict) else None
        )

    def dtype_bytes(self, *names: str) -> int:
        """Return the bytes of one value in the first dtype set: `names`, the model's own, bfloat16."""
        for name in (*names, "dtype", "torch_dtype"):
            value = self.text.get(name) or self.root.get(name)
            if str(value).removeprefix("torch.") in _DTYPE_BYTES:
                return _DTYPE_BYTES[str(value).removeprefix("torch.")]
        return _DTYPE_BYTES["bfloat16"]

    def error(self, key: str, message: str) -> ConfigError:
        return ConfigError(f"{printable(self.source)}: {printable(key)}: {message}")
