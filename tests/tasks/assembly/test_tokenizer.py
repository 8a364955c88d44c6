from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from kveval.errors import PlanError
from kveval.tasks.assembly.tokenizer import FastTokenizer, StandInTokenizer

TRAINING = ["The quiet harbor is 1234567. One of the special magic numbers, for instance. It was late."] * 20
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6)


def llama2_style() -> Tokenizer:
    """Sentencepiece as in Llama 2: a space before everything, bytes for what the vocabulary lacks."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    strip = decoders.Strip(content=" ", left=1, right=0)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"], initial_alphabet=["▁"])
    tokenizer.train_from_iterator(TRAINING, trainer)
    vocabulary = tokenizer.get_vocab()
    for token in fallback:
        vocabulary[token] = len(vocabulary)
    merges = [tuple(merge) for merge in _merges(tokenizer)]
    tokenizer.model = models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    return tokenizer


def _merges(tokenizer: Tokenizer) -> list[list[str]]:
    return [
        merge if isinstance(merge, list) else merge.split(" ")
        for merge in json.loads(tokenizer.to_str())["model"]["merges"]
    ]


def gpt2_style(**options) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=options.get("add_prefix_space", False))
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TRAINING, trainer)
    if options.get("lower"):
        tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


def fast(tokenizer: Tokenizer) -> FastTokenizer:
    return FastTokenizer(tokenizer, tokenizer.get_vocab_size(), "test")


@pytest.mark.parametrize("make", [llama2_style, gpt2_style, lambda: gpt2_style(add_prefix_space=True)])
def test_pieces_decode_to_the_concatenated_text(make):
    tokenizer = fast(make())
    pieces = [
        "The quiet",
        " harbor is",
        " 1234567.",
        "\n\nOne of",
        " the — “late” êü",
        "It",
        ".",
        "  two  spaces ",
        "\n",
    ]
    ids = np.concatenate([encoding.ids for encoding in tokenizer.encode(pieces)])
    assert tokenizer.decode(ids) == "".join(pieces)


@pytest.mark.parametrize("make", [llama2_style, gpt2_style])
def test_spans_say_which_characters_a_token_covers(make):
    text = " The quiet harbor — 1234567."
    encoding = fast(make()).encode([text])[0]
    assert len(encoding.ids) == len(encoding.spans)
    covered = {i for start, end in encoding.spans for i in range(start, end)}
    assert covered >= {i for i, character in enumerate(text) if character != " "}
    assert encoding.spans[-1, 1] == len(text)


def test_special_tokens_in_text_stay_text():
    tokenizer = fast(gpt2_style())
    ids = tokenizer.encode(["before <|end|> after"])[0].ids
    assert 0 not in ids
    assert tokenizer.decode(ids) == "before <|end|> after"


def test_a_tokenizer_that_changes_text_is_refused():
    with pytest.raises(PlanError, match="'test' changes text"):
        fast(gpt2_style(lower=True))


def test_tokens_the_model_has_no_embedding_for_are_refused():
    tokenizer = gpt2_style()
    small = FastTokenizer(tokenizer, 40, "small")
    with pytest.raises(PlanError, match="the model has only 40 embeddings"):
        small.encode(["The quiet harbor is zzz."])


@given(texts=TEXTS)
def test_the_stand_in_spells_any_text_in_pieces(texts):
    tokenizer = StandInTokenizer()
    encodings = tokenizer.encode(texts)
    ids = [token for encoding in encodings for token in encoding.ids]
    assert tokenizer.decode(ids) == "".join(texts)
    assert all(0 <= token < tokenizer.vocab_size for token in ids)
    for text, encoding in zip(texts, encodings, strict=True):
        assert encoding.ids.dtype == np.int32
        assert "".join(text[start:end] for start, end in encoding.spans) == text


def test_the_stand_in_is_about_as_coarse_as_a_real_tokenizer():
    text = TRAINING[0] * 10
    assert 2.5 < len(text) / len(StandInTokenizer().encode([text])[0].ids) < 4.5
