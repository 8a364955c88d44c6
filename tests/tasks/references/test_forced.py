from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from kveval.errors import PlanError
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.assembly.tokenizer import FastTokenizer
from kveval.tasks.references.forced import forced_text
from kveval.tasks.references.reference import FORMAT, Piece, Reference

STAND_IN = PromptFormat.stand_in()
CHARACTERS = "abcdefghijklmnopqrstuvwxyzATWZ0123456789.,`:<|>()!_-—“”ê\x02\n"


def bpe(*words: str, spaced: bool = False) -> PromptFormat:
    """Characters, and the given words as single tokens. `spaced` puts a space before everything, as Llama 2 does."""
    space = "▁" if spaced else " "
    characters = [*dict.fromkeys(CHARACTERS + space)]
    words = tuple(word.replace(" ", space) for word in words)
    merges, vocabulary = [], {character: i for i, character in enumerate(characters)}
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    backend = Tokenizer(models.BPE(vocabulary, merges))
    if spaced:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        strip = decoders.Strip(content=" ", left=1, right=0)
        backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), strip])
    else:
        backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    return replace(STAND_IN, tokenizer=FastTokenizer(backend, backend.get_vocab_size(), "test"))


def shown(forced, prompt_format):
    return [(prompt_format.decode([token]), part) for token, part in zip(forced.token_ids, forced.parts, strict=True)]


def test_a_token_that_holds_the_end_of_the_lead_and_the_start_of_the_answer_is_scored():
    prompt_format = bpe(" 5")
    forced = forced_text(Reference((Piece("it is "), Piece("54", "answer"))), prompt_format)
    assert shown(forced, prompt_format)[-3:] == [("s", None), (" 5", "answer"), ("4", "answer")]
    assert forced.token_ids.dtype == np.int32


def test_lead_and_answer_are_encoded_together():
    prompt_format = bpe("none")
    forced = forced_text(Reference((Piece("no"), Piece("ne", "answer"))), prompt_format)
    assert shown(forced, prompt_format) == [("none", "answer")]


def test_text_behind_the_answer_decides_how_its_end_is_cut_and_is_not_forced():
    prompt_format = bpe("7.")
    forced = forced_text(Reference((Piece("67", "answer"), Piece(". ok"))), prompt_format)
    assert shown(forced, prompt_format) == [("6", "answer"), ("7.", "answer")]
    forced = forced_text(Reference((Piece("66", "answer"), Piece(". ok"))), prompt_format)
    assert shown(forced, prompt_format) == [("6", "answer"), ("6", "answer")]


def test_a_token_of_value_and_format_counts_for_the_value():
    prompt_format = bpe("a:", ":b")
    pieces = (Piece("a", "value"), Piece(":", FORMAT), Piece("b", "value"))
    assert shown(forced_text(Reference(pieces), prompt_format), prompt_format) == [("a:", "value"), ("b", "value")]


@pytest.mark.parametrize("text", ["ok then", " ok"])
def test_a_tokenizer_that_puts_a_space_before_everything_adds_none(text):
    prompt_format = bpe(" ok", spaced=True)
    forced = forced_text(Reference((Piece("W"), Piece(text, "answer"))), prompt_format)
    assert prompt_format.decode(forced.token_ids) == f"W{text}"
    assert forced.parts[0] is None
    assert set(forced.parts[1:]) == {"answer"}


def test_characters_of_several_tokens_are_scored_whole(smollm2):
    prompt_format = PromptFormat.load(smollm2)
    forced = forced_text(Reference((Piece("It is"), Piece(" 🜲", "answer"), Piece("."))), prompt_format)
    assert prompt_format.decode(forced.token_ids) == "It is 🜲"
    assert forced.parts.count("answer") == len(forced.parts) - 2 > 2


def test_special_tokens_spelled_in_a_reference_stay_text():
    prompt_format = bpe()
    [special] = prompt_format.tokenizer.encode_prompt("<|end|>").ids
    forced = forced_text(Reference((Piece("a<|end|>", "answer"),)), prompt_format)
    assert special not in forced.token_ids
    assert prompt_format.decode(forced.token_ids) == "a<|end|>"


def test_what_a_template_writes_around_calls_is_special():
    prompt_format = bpe()
    [special] = prompt_format.tokenizer.encode_prompt("<|end|>").ids
    pieces = (Piece("<|end|>", FORMAT), Piece("a", "value"), Piece("<|end|>"))
    forced = forced_text(Reference(pieces, has_special=True), prompt_format)
    assert shown(forced, prompt_format) == [("<|end|>", FORMAT), ("a", "value")]
    assert forced.token_ids[0] == special


def test_an_empty_answer_inside_a_token_has_no_token():
    with pytest.raises(PlanError, match="no token for 'answer'"):
        forced_text(Reference((Piece("n"), Piece("", "answer"), Piece("o", "other"))), bpe("no"))


def test_tokens_before_a_reference_are_forced_and_not_scored():
    forced = forced_text(Reference((Piece("ok", "answer"),)), STAND_IN, opening_ids=[5, 6])
    assert list(forced.token_ids[:2]) == [5, 6]
    assert forced.parts == (None, None, "answer")


def test_empty_leads_are_nothing():
    forced = forced_text(Reference((Piece(""), Piece("ok", "answer"), Piece(""))), STAND_IN)
    assert forced.parts == ("answer",)


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ((Piece("It is "), Piece("", "answer")), "no token for 'answer'"),
        ((Piece("It is "),), "has nothing to score"),
        ((Piece(""),), "has nothing to score"),
        ((), "has nothing to score"),
        ((Piece("{", FORMAT),), "has nothing to score"),
        ((Piece("1", "entry 1"), Piece("2", "entry 2")), "no token for 'entry 2'"),
    ],
)
def test_a_reference_without_a_token_to_score_is_refused(pieces, says):
    with pytest.raises(PlanError, match=rf"{says}.*; use .*, or requests\.forced_decode: false$"):
        forced_text(Reference(pieces), bpe("12"))


def test_values_that_share_a_token_are_scored_together():
    prompt_format = bpe("1,2")
    pieces = (Piece("1,", "value"), Piece("2", "value"))
    assert shown(forced_text(Reference(pieces), prompt_format), prompt_format) == [("1,2", "value")]


def test_a_token_without_an_embedding_is_refused():
    small = bpe("zz")
    small.tokenizer.vocab_size = small.tokenizer.encode(["zz"])[0].ids[0]
    with pytest.raises(PlanError, match="the model has only"):
        forced_text(Reference((Piece("zz", "answer"),)), small)
    with pytest.raises(PlanError, match=r"has token 9999999999, .*; use .*, or requests\.forced_decode: false$"):
        forced_text(Reference((Piece("ok", "answer"),)), STAND_IN, opening_ids=[9999999999])


def test_a_long_list_is_encoded_in_one_go(smollm2):
    prompt_format = PromptFormat.load(smollm2)
    pieces = [p for k in range(1, 129) for p in (Piece(f"amber-falcon: {1000 + k}", f"entry {k}"), Piece("\n"))]
    forced = forced_text(Reference(tuple(pieces)), prompt_format)
    assert len({part for part in forced.parts if part}) == 128
    assert prompt_format.decode(forced.token_ids) == "".join(piece.text for piece in pieces[:-1])
