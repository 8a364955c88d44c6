from __future__ import annotations

import random
import re
from itertools import islice, pairwise

import pytest

from kveval.errors import ConfigError, DataError
from kveval.tasks.corpora.texts import (
    CORPORA,
    HAYSTACK_STYLES,
    LONG_CONTEXT,
    GeneratedText,
    essay_paragraphs,
    haystack_text,
)


@pytest.mark.parametrize("style", HAYSTACK_STYLES)
def test_every_style_reads_as_clean_paragraphs(style):
    text = haystack_text(style)
    assert text.name == style
    for index in islice(text.order(random.Random(0)), 300):
        paragraph = text.text(index)
        assert paragraph.startswith("\n\n")
        assert not re.search(r"\s{2}|[\n\t\x00-\x1f\x7f-\x9f\xa0]", paragraph[2:])
        assert paragraph[2:] == paragraph.strip()


def test_haystacks_begin_in_different_places():
    for style in HAYSTACK_STYLES:
        assert len({next(haystack_text(style).order(random.Random(seed))) for seed in range(20)}) > 15


def test_essays_run_on_in_their_order_and_around():
    order = list(haystack_text("essays").order(random.Random(0)))
    assert sorted(order) == list(range(len(order)))
    assert all(later == (earlier + 1) % len(order) for earlier, later in pairwise(order))


def test_real_text_is_as_long_as_it_says():
    essays, wikipedia = haystack_text("essays"), haystack_text("wikipedia")
    assert sum(len(essays.text(i)) for i in essays.order(random.Random(0))) > 2_900_000
    assert len(list(wikipedia.order(random.Random(0)))) > 60_000


def test_essay_paragraphs_mend_what_the_package_ships():
    glued = (
        "This is the end of one paragraph, long enough to be kept as it is."
        "Another begins right here, with no break at all between the two of them."
    )
    assert len(essay_paragraphs(glued)) == 2
    marked = "**14\\. Don't** stop, says [the essay](http://example.org/x), because it is\nhard-wrapped\x97and\xa0odd."
    assert essay_paragraphs(marked) == ["14. Don't stop, says the essay, because it is hard-wrapped—and odd."]
    assert essay_paragraphs("Too short.") == []
    assert essay_paragraphs("-" * 70) == []


def test_an_unknown_style_is_refused():
    with pytest.raises(ConfigError, match="'essay'; did you mean 'essays'"):
        haystack_text("essay")


def test_corpora_are_pinned_and_have_a_licence():
    assert all(corpus.licence and corpus.members and len(corpus.sha256) == 64 for corpus in CORPORA)


def test_a_member_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"has no readable nothing\.json"):
        LONG_CONTEXT.read("nothing.json")


def test_paragraphs_are_made_from_their_own_number():
    assert GeneratedText().text(7) == GeneratedText().text(7)
    texts = {GeneratedText().text(i) for i in range(2000)}
    assert len(texts) == 2000


def test_it_holds_nothing_a_needle_could_be_taken_for():
    text = "".join(GeneratedText().text(i) for i in range(500))
    assert not any(character.isdigit() or character == "-" for character in text)


def test_it_never_ends_and_never_repeats():
    order = list(islice(GeneratedText().order(random.Random(0)), 10_000))
    assert len(set(order)) == 10_000
    assert order != list(islice(GeneratedText().order(random.Random(1)), 10_000))
