"""Loads the tokenizer of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.models.folder import printable, read_bytes, read_json_object, reading

_CUSTOM_CODE = "needs Python code of that folder; if you trust it, use engine.args: {trust-remote-code: true}"
# Where transformers looks for parts of a tokenizer, besides tokenizer.json itself.
_JSON_FILES = ("config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_MOST_TEXT_BYTES = 100_000_000


def load_tokenizer(folder: Path, trusts_code: bool = False) -> Any:
    """Return the transformers tokenizer of a model folder. Never uses the network.

    Args:
        trusts_code: whether Python code that the folder holds may run.

    Raises:
        ConfigError: there is no fast tokenizer, or its files cannot be read. The message names the file.
    """
    with reading(folder):
        if not folder.is_dir():
            raise ConfigError(f"model directory {printable(folder)} does not exist")
    from transformers import AutoTokenizer

    try:
        with reading(folder, "model: its tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trusts_code)
    except ConfigError as error:
        # The library does not say which file it stumbled over.
        _check_files(folder)
        if not trusts_code and "custom code" in str(error):
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
