"""HotpotQA's and SQuAD's documents, and the questions about them."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import numpy as np
import pytest

from kveval.tasks.corpora import documents
from kveval.tasks.corpora.documents import hotpotqa, mixed_library, squad, wikipedia_library
from kveval.tasks.families.multidoc_qa.scorers import answered
from kveval.tasks.scoring.text import PROSE

FORMS = [
    "{}",
    "**{}**",
    "It is {}.",
    "\\boxed{{{}}}",
    "<answer>{}</answer>",
    "Answer:{}",
    "[{}](http://x)",
    "{}(see text)",
]


@pytest.mark.parametrize("collection", [hotpotqa, squad], ids=lambda collection: collection.__name__)
def test_real_answers_are_right_in_whatever_form(collection):
    for query in [query for query in collection().queries if query.answers][:600]:
        doc = {"question": query.question, "answers": query.answers, "distractors": (), "absent": False}
        for answer in query.answers:
            as_json = json.dumps({"answer": answer, "confidence": "high"}, separators=(",", ":"), ensure_ascii=False)
            for text in (*(form.format(answer) for form in FORMS), as_json, answer.upper()):
                assert answered(doc, [text])["score"] == 1, text


@pytest.mark.parametrize("collection", [hotpotqa, squad], ids=lambda collection: collection.__name__)
def test_real_numbers_that_lost_a_character_are_wrong(collection):
    texts = {answer for query in collection().queries for answer in query.answers}
    numbers = {number for text in texts for number in re.findall(r"\d[\d.,]*\d", text)}
    assert len(numbers) > 100
    for number in numbers:
        for i, lost in enumerate(number):
            damaged = number[:i] + number[i + 1 :]
            # 10,000 is 10000 and 3.0 is 3.
            if lost != "," and not (lost == "0" and "." in number):
                assert not PROSE.names(damaged, number)
                assert not PROSE.names(number, damaged)


@pytest.mark.parametrize("collection", [hotpotqa, squad], ids=lambda collection: collection.__name__)
def test_guessing_without_the_documents_hardly_scores(collection):
    queries = [query for query in collection().queries if query.answers]
    docs = [
        {"question": query.question, "answers": query.answers, "distractors": (), "absent": False} for query in queries
    ]
    answers = Counter(PROSE.normalize(answer) for query in queries for answer in query.answers)
    guesses = [guess for guess, _ in answers.most_common(5)] + [
        "yes",
        "no",
        "American",
        "1999 2001 2005",
        "the first one",
    ]
    for guess in guesses:
        assert np.mean([answered(doc, [guess])["score"] for doc in docs]) < 0.005
    assert np.mean([answered(doc, [doc["question"]])["score"] for doc in docs]) < 0.005
    common_words = Counter(word for doc in docs for word in PROSE.normalize(doc["question"]).split()).most_common(25)
    assert np.mean([answered(doc, [" ".join(word for word, _ in common_words)])["score"] for doc in docs]) < 0.005


def test_both_kinds_of_documents_are_around_single_hop_questions():
    order = mixed_library().order(random.Random(0))
    first = [mixed_library().text(next(order)) for _ in range(400)]
    of_squad = {f"\n\n{document}" for document in squad().documents}
    assert 150 < sum(text in of_squad for text in first) < 250
    assert len(list(wikipedia_library().order(random.Random(0)))) == len(hotpotqa().documents)


def test_what_was_parsed_is_kept_and_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "cache_directory", lambda: tmp_path)
    fresh = documents._kept("squad", documents._read_squad)
    assert [path.name.split("-")[0] for path in (tmp_path / "parsed").iterdir()] == ["squad"]
    assert documents._kept("squad", lambda: pytest.fail("parsed twice")) == json.loads(json.dumps(fresh))
