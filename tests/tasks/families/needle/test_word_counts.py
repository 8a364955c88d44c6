from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from math import comb

import pytest
from support.families import build, context_of

from kveval.errors import ConfigError
from kveval.tasks.corpora.words import MADE_UP_WORD, MADE_UP_WORDS, draw_words, made_up_word
from kveval.tasks.families.needle.word_counts import CodedText, CommonWords, FrequentWords, WordList


def counted(task, context_length, samples, questions):
    """Samples and how often each word stands in their context."""
    for sample in build(task, context_length, samples, questions):
        context = context_of(task, sample)
        words = Counter(context.split())
        asked = sample.doc["question"].partition('the letter "')[2][:1]
        yield sample, Counter({word: n for word, n in words.items() if word.startswith(asked) and word != "..."})


@pytest.mark.parametrize("context_length", [2048, 4099, 8192])
@pytest.mark.parametrize("questions", [1, 3, 10])
def test_a_reader_who_counts_finds_the_common_words(tasks, context_length, questions):
    for sample, words in counted(tasks["common_words"], context_length, 2 * questions, questions):
        wanted = sample.doc["answers"]
        assert len(wanted) == 10 // questions
        assert {word for word, n in words.items() if n == 30} == set(wanted)
        assert sorted(words.values())[-len(wanted) - 1] == 3


@pytest.mark.parametrize("context_length", [700, 2048, 3111, 8192])
@pytest.mark.parametrize("questions", [1, 4, 10])
def test_a_reader_who_counts_finds_the_frequent_words_wherever_the_text_is_cut(tasks, context_length, questions):
    if (context_length, questions) == (700, 10):
        pytest.skip("ten questions need a longer context")
    for sample, words in counted(tasks["frequent_words"], context_length, 2 * questions, questions):
        ranked = words.most_common()
        assert {word for word, _ in ranked[:3]} == set(sample.doc["answers"])
        assert ranked[2][1] > ranked[3][1]


def test_coded_text_falls_off_as_rulers_does():
    vocabulary = draw_words(25, random.Random(0))
    text = CodedText([vocabulary], 7)
    words = Counter(" ".join(text.text(i) for i in islice(text.order(random.Random(0)), 200)).split())
    shares = [n / words.total() for _, n in words.most_common(5)]
    for share, zeta in zip(shares, (0.608, 0.152, 0.068, 0.038, 0.024), strict=True):
        assert 0.6 * zeta < share < 1.6 * zeta


def test_a_list_word_is_in_one_piece_and_appears_as_often_as_the_others():
    source = WordList(3)
    words = Counter("".join(source.text(i) for i in islice(source.order(random.Random(0)), 40)).split())
    assert set(words.values()) == {3}
    assert len(words) == 40 * 60


def test_made_up_words_are_all_different():
    words = {made_up_word(number) for number in range(0, MADE_UP_WORDS, 7)}
    assert len(words) == -(-MADE_UP_WORDS // 7)
    assert all(MADE_UP_WORD.fullmatch(word) for word in words)


def test_with_one_question_the_list_is_rulers():
    haystack = CommonWords().haystack(range(1), 0.5, random.Random(0))
    assert len(haystack.questions[0].answers) == 10
    assert Counter(needle.text for needle in haystack.needles) == dict.fromkeys(haystack.questions[0].answers, 30)
    assert haystack.questions[0].fields["question"] == "What are the 10 most common words in the list?"
    assert len(FrequentWords().haystack(range(1), 0.5, random.Random(0)).questions[0].answers) == 3


@pytest.mark.parametrize(("context_length", "stated"), [(2048, 0.15), (8192, 0.05)])
def test_naming_a_word_with_the_right_letter_stays_below_the_stated_chance(tasks, context_length, stated):
    scores = []
    for sample, words in counted(tasks["common_words"], context_length, 20, 10):
        scores += [sum(tasks["common_words"].score(sample.doc, word)["score"] for word in words) / len(words)]
    assert sum(scores) / len(scores) <= stated


def test_naming_frequent_words_at_random_stays_below_the_stated_chance():
    chances = []
    for named in range(1, 26):
        found = {k: comb(3, k) * comb(22, named - k) / comb(25, named) for k in range(min(named, 3) + 1)}
        chances.append(sum(p * max(2 * k - named, 0) / 3 for k, p in found.items()))
    assert max(chances) <= 0.05


@pytest.mark.parametrize(
    ("builder", "metadata", "questions", "says"),
    [
        (CommonWords, {"frequency": 3}, 1, "repeats=3; use a number below frequency=3"),
        (CommonWords, {}, 18, "use at most 17 to count words"),
        (FrequentWords, {}, 18, "use at most 17 to count words"),
    ],
)
def test_parameters_out_of_range_are_refused(builder, metadata, questions, says):
    with pytest.raises(ConfigError, match=says):
        builder.from_metadata(metadata).haystack(range(questions), 0.0, random.Random(0))
