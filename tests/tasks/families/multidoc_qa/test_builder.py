from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare
from support.families import build, context_of, names_of, text_of

from kveval.errors import ConfigError
from kveval.tasks.corpora.documents import DOCUMENT_ID, hotpotqa, squad
from kveval.tasks.families.multidoc_qa.builder import DocumentTask, SingleHop, TwoHop
from kveval.tasks.outcome import classify
from kveval.tasks.scoring.text import PROSE

NAMES = names_of("multidoc_qa")
LENGTHS = [4096, 8192]


@pytest.fixture(scope="module")
def built(tasks):
    return {(name, length): build(tasks[name], length, 24, 8) for name in NAMES for length in LENGTHS}


def right_answer(doc):
    return doc["answers"][0] + "".join(f" [{document_id}]" for document_id in doc["document_ids"])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_whoever_knows_the_answers_scores_one(tasks, built, name, length):
    for sample in built[name, length]:
        metrics = tasks[name].score(sample.doc, f"It is {right_answer(sample.doc)}.")
        if sample.doc["absent"]:
            metrics = tasks[name].score(sample.doc, "The documents do not say.")
        assert metrics["score"] == 1.0, sample.doc
        assert classify(right_answer(sample.doc), "stop", metrics, sample.doc) == "correct"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_to_another_question_scores_nothing(tasks, built, name, length):
    samples = [sample for sample in built[name, length] if not sample.doc["absent"]]
    for sample, other in pairwise([*samples, samples[0]]):
        assert tasks[name].score(sample.doc, right_answer(other.doc))["score"] == 0


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_all_answers_at_once_score_nothing(tasks, built, name, length):
    samples = [sample for sample in built[name, length] if not sample.doc["absent"]]
    for haystack_id in {sample.haystack_id for sample in samples}:
        own = [sample for sample in samples if sample.haystack_id == haystack_id]
        everything = ", ".join(sample.doc["answers"][0] for sample in own)
        assert sum(tasks[name].score(sample.doc, everything)["score"] for sample in own) == 0


@pytest.mark.parametrize("samples", [7, 12])
@pytest.mark.parametrize("name", NAMES)
def test_an_abstainer_scores_the_absent_share(tasks, name, samples):
    task = tasks[name]
    absent = int(samples * task.metadata.get("absent_share", 0))
    for length in LENGTHS:
        of_cell = build(task, length, samples, 4)
        assert sum(sample.doc["absent"] for sample in of_cell) == absent
        assert sum(task.score(sample.doc, "not stated")["score"] for sample in of_cell) == absent
        for sample in of_cell:
            outcome = classify("not stated", "stop", task.score(sample.doc, "not stated"), sample.doc)
            assert outcome == ("correct" if sample.doc["absent"] else "abstained")


def test_an_answer_where_there_is_none_is_wrong(tasks, built):
    task = tasks["qa_unanswerable"]
    for sample in built["qa_unanswerable", 4096]:
        if sample.doc["absent"]:
            for text in (sample.doc["distractors"][-1], f"It is not stated, but {sample.doc['distractors'][-1]}."):
                assert classify(text, "stop", task.score(sample.doc, text), sample.doc) == "wrong"


def test_a_cited_answer_without_documents_has_the_wrong_format(tasks, built):
    task = tasks["qa_cited"]
    sample = built["qa_cited", 4096][0]
    text = sample.doc["answers"][0]
    assert classify(text, "stop", task.score(sample.doc, text), sample.doc) == "invalid_format"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_answers_stand_in_their_documents_only(tasks, built, name, length):
    for sample in built[name, length]:
        parts = context_of(tasks[name], sample).split("\n\n")
        own = [part for part in parts if any(f"[{document_id}]" in part for document_id in sample.doc["document_ids"])]
        assert len(own) == len(sample.doc["document_ids"]) == len(sample.doc["depths_percent"])
        others = [part for part in parts if part not in own]
        secrets = [*sample.doc["answers"]]
        assert not any(PROSE.names(part, secret) for part in others for secret in secrets)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_documents_are_whole_and_their_ids_unique(tasks, built, name, length):
    known = {document.id: str(document) for document in (*hotpotqa().documents, *squad().documents)}
    for sample in built[name, length][:3]:
        parts = context_of(tasks[name], sample).split("\n\n")
        ids = [DOCUMENT_ID.search(part)[0] for part in parts[:-1]]
        assert len(set(ids)) == len(ids)
        assert set(sample.doc["document_ids"]) <= {*ids, *DOCUMENT_ID.findall(parts[-1])}
        assert [known[document_id] for document_id in ids] == parts[:-1]


def test_gold_that_is_removed_is_not_there_and_leaves_another_of_its_article(tasks, built):
    kinds = Counter()
    queries = {query.question: query for query in squad().queries}
    for sample in built["qa_unanswerable", 8192]:
        query = queries[sample.doc["question"]]
        context = context_of(tasks["qa_unanswerable"], sample)
        if sample.doc["absent"]:
            kinds["removed" if query.answers else "unanswerable"] += 1
            assert (f"[{query.gold[0].id}]" in context) == (not query.answers)
            assert not any(PROSE.names(context, answer) for answer in query.answers)
            assert query.gold[0].title in context
            assert sample.depth_percent is None
            assert sample.doc["excerpts"] == []
    assert kinds == {"removed": 6, "unanswerable": 6}


def test_unanswerable_prompts_look_like_any_other(built):
    texts = [text_of(sample) for sample in built["qa_unanswerable", 4096]]
    assert len({text.split("\n\n")[0] for text in texts}) == 1
    for text, sample in zip(texts, built["qa_unanswerable", 4096], strict=True):
        assert text.endswith(f"\n\nQuestion: {sample.doc['question']}\nAnswer:")


def test_documents_stand_near_the_depths_asked_for(built):
    for name, length in built:
        depths = np.sort([depth for sample in built[name, length] for depth in sample.doc["depths_percent"]])
        even = (np.arange(len(depths)) + 0.5) * 100 / len(depths)
        assert np.abs(depths - even).max() < (10 if length == 4096 else 8)
        assert np.abs(depths - even).mean() < 4


def planned_depths(task, haystacks, questions):
    rng = random.Random(7)
    strata = rng.sample(range(haystacks), haystacks)
    rows = []
    for index, stratum in enumerate(strata):
        depth_shift = (stratum + rng.random()) / haystacks
        plan = task.haystack(range(index * questions, (index + 1) * questions), depth_shift, rng)
        rows += [[plan.needles[k].depth_percent for k in question.needles] for question in plan.questions]
    return np.array(rows)


@pytest.mark.parametrize("questions", [1, 8])
def test_depths_are_uniform_and_those_of_two_documents_independent(questions):
    depths = planned_depths(TwoHop(), 320 // questions, questions)
    for hop in range(2):
        counts = np.histogram(depths[:, hop], bins=10, range=(0, 100))[0]
        assert chisquare(counts).pvalue > 0.5
    cells = np.histogram2d(depths[:, 0], depths[:, 1], bins=4, range=[[0, 100]] * 2)[0]
    assert chisquare(cells.ravel()).pvalue > 0.01
    assert abs(np.corrcoef(depths.T)[0, 1]) < 0.15


def test_depths_of_single_documents_are_uniform():
    counts = np.histogram(planned_depths(SingleHop(), 40, 8), bins=10, range=(0, 100))[0]
    assert chisquare(counts).pvalue > 0.9


def test_hardly_a_question_comes_twice_in_a_cell():
    asked = []
    for index in range(40):
        plan = SingleHop(0.5).haystack(range(index * 8, index * 8 + 8), 0.5, random.Random(index))
        asked += [question.fields["question"] for question in plan.questions]
    assert len(set(asked)) > 0.97 * len(asked)


def test_two_hop_absence_leaves_the_other_document():
    plan = TwoHop(absent_share=1.0).haystack(range(4), 0.5, random.Random(0))
    assert len(plan.needles) == 4
    assert all(question.absent and question.distractors for question in plan.questions)
    text = "\n".join(needle.text for needle in plan.needles)
    assert not any(PROSE.names(text, answer) for question in plan.questions for answer in question.distractors[-1:])


@pytest.mark.parametrize("share", [1.5, -0.1, "half", True])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(ConfigError, match="use a number from 0 to 1"):
        DocumentTask.from_metadata({"absent_share": share})


def test_more_questions_than_fit_make_more_haystacks(tasks):
    samples = build(tasks["qa_two_hop"], 2048, 10)
    assert len({sample.haystack_id for sample in samples}) == 2


def test_more_questions_than_there_are_is_refused(monkeypatch):
    few = squad()._replace(queries=squad().queries[:5])
    monkeypatch.setattr("kveval.tasks.families.multidoc_qa.builder.squad", lambda: few)
    with pytest.raises(ConfigError, match="questions_per_haystack=20; only"):
        SingleHop().haystack(range(20), 0.5, random.Random(0))
