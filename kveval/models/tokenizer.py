"""Loads the tokenizer of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.models.folder import printable, read_bytes, read_json_object, reading

_CUSTOM_CODE = (
    "needs Python code of that folder, which kveval does not run; use a checkpoint with a tokenizer.json alone"
)
# Where transformers looks for parts of a tokenizer, besides tokenizer.json itself.
_JSON_FILES = ("config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_MOST_TEXT_BYTES = 100_000_000


def load_tokenizer(folder: Path) -> Any:
    """Return the transformers tokenizer of a model folder. Never uses the network, and runs no code of the folder.

    Raises:
        ConfigError: there is no fast tokenizer, or its files cannot be read. The message names the file.
    """
    with reading(folder):
        if not folder.is_dir():
            raise ConfigError(f"model directory {printable(folder)} does not exist")
    from transformers import AutoTokenizer

    try:
        with reading(folder):
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ConfigError as error:
        _check_files(folder)
        if "trust_remote_code" in str(error):
            raise ConfigError(f"model: the tokenizer of {printable(folder)} {_CUSTOM_CODE}") from error
        raise
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ConfigError(f"the tokenizer of {printable(folder)} is not a fast one; it needs a tokenizer.json")
    return tokenizer


def _check_files(folder: Path) -> None:
    """Read the files one by one. Raises ConfigError: it names the file that cannot be read."""
    from tokenizers import Tokenizer

    for name in _JSON_FILES:
        if (folder / name).exists():
            read_json_object(folder / name)
    for template in (folder / "chat_template.jinja", *sorted(folder.glob("additional_chat_templates/*.jinja"))):
        if template.exists():
            with reading(template):
                read_bytes(template, _MOST_TEXT_BYTES).decode("utf-8")
    whole = folder / "tokenizer.json"
    if whole.exists():
        with reading(whole):
            Tokenizer.from_buffer(read_bytes(whole, _MOST_TEXT_BYTES))
