from __future__ import annotations

import json
import random
import re

import pytest
from scipy.stats import chisquare
from support.families import build, names_of, text_of

from kveval.errors import ConfigError, PlanError
from kveval.tasks.families.code.builder import CallChain, CompleteLine, Execute, FindDefinition, FindFunction
from kveval.tasks.outcome import classify
from kveval.tasks.scoring import sandbox

NAMES = names_of("code")
BUILDERS = [FindFunction(), FindDefinition(), CompleteLine(), CallChain(), Execute()]
WORDINGS = {
    "code_find_function": "The function is `{}`.",
    "code_definition": "It is `{}`.",
    "code_call_chain": "It returns {}.",
    "code_complete_line": "```python\ndef wrapper({}\n```",
    "code_execute": "<think>Hm.</think>Here it is:\n\n```python\n{}\n```\n\nIt calls the function.",
}


def built(tasks, name, context_length=2048, samples=10, **options):
    return build(tasks[name], context_length, samples, **options)


def texts_of(sample):
    """Text of context and all, and text after the context."""
    text = text_of(sample)
    return text, text[text.rindex(sample.doc["question"][:30]) :]


def test_all_tasks_are_there():
    assert sorted(WORDINGS) == sorted(NAMES)


@pytest.mark.parametrize("context_length", [2048, 8192])
@pytest.mark.parametrize("name", NAMES)
def test_whoever_knows_the_answers_scores_one(tasks, name, context_length):
    for sample in built(tasks, name, context_length):
        text = sample.doc["answers"][0]
        if name != "code_complete_line":
            text = WORDINGS[name].format(text)
        metrics = tasks[name].score(sample.doc, text)
        assert set(metrics.values()) == {1.0}
        assert classify(text, "stop", metrics, sample.doc) == "correct"


@pytest.mark.parametrize("context_length", [2048, 8192])
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_to_another_question_scores_nothing(tasks, name, context_length):
    samples = built(tasks, name, context_length)
    for sample, other in zip(samples, samples[1:] + samples[:1], strict=True):
        metrics = tasks[name].score(sample.doc, other.doc["answers"][0])
        assert metrics["score"] == 0
        assert classify(other.doc["answers"][0], "stop", metrics, sample.doc) == "wrong"


@pytest.mark.parametrize("name", NAMES)
def test_an_abstainer_scores_nothing_and_is_called_so(tasks, name):
    for sample in built(tasks, name):
        metrics = tasks[name].score(sample.doc, "not stated")
        assert metrics["score"] == 0
        assert classify("not stated", "stop", metrics, sample.doc) == "abstained"


@pytest.mark.parametrize("name", NAMES)
def test_naming_everything_scores_nothing(tasks, name):
    for sample in built(tasks, name):
        everything = [*sample.doc["distractors"], *sample.doc["answers"]]
        joint = "\n\n" if name == "code_execute" else ", "
        score = tasks[name].score(sample.doc, joint.join(everything))["score"]
        # the last of several definitions counts in Python
        assert score == (1 if name == "code_execute" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_question_does_not_give_the_answer_away(tasks, name):
    """What a model that sees no context can say: nothing of the answer stands after the context."""
    for sample in built(tasks, name, samples=20):
        _, question = texts_of(sample)
        answer = sample.doc["answers"][0]
        if name == "code_execute":
            names = re.findall(r"\w+_\w+", answer)
        elif name == "code_complete_line":
            names = re.findall(r"[a-z]+_[a-z]+", answer)
        else:
            names = [answer]
        assert names
        assert not any(text in question for text in names)
        guesses = {question, "None", "42", "self, *args, **kwargs):", "def solve(values):\n    return values"}
        assert not any(tasks[name].score(sample.doc, guess)["score"] for guess in guesses)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_planted_stands_there_once(tasks, name):
    for sample in built(tasks, name, 8192):
        text, question = texts_of(sample)
        context = text[: len(text) - len(question)]
        answer = sample.doc["answers"][0]
        if name == "code_complete_line":
            assert context.count(sample.doc["answer_lead"]) == 1
        elif name == "code_execute":
            assert context.count(sample.doc["helper"]) == 1
        else:
            assert len(re.findall(rf"\b{answer}\b", context)) == 1
        if name == "code_find_function":
            assert sample.doc["question"].split('"')[1] not in context
        if name == "code_definition":
            subject = sample.doc["question"].split(" in the source code?")[0].split(" of ")
            name_ = next(part for part in subject[::-1] if not part.startswith("the class") or len(subject) == 2)
            assert len(re.findall(rf"\b(?:def|class) {name_.split()[-1]}\b", context)) == 1


@pytest.mark.parametrize("context_length", [2048, 8192])
@pytest.mark.parametrize("name", NAMES)
def test_length_is_exact_and_the_context_is_shared(tasks, name, context_length):
    samples = built(tasks, name, context_length, samples=20)
    assert all(context_length - 8 <= len(sample.prompt) <= context_length for sample in samples)
    for haystack in (samples[:10], samples[10:]):
        assert len({id(sample.prompt.shared) for sample in haystack}) == 1
        assert len({sample.sample_id for sample in haystack}) == 10
        assert max(len(sample.prompt.tail) for sample in haystack) < 300


@pytest.mark.parametrize("name", NAMES)
def test_definitions_are_planted_between_whole_lines(tasks, name):
    for sample in built(tasks, name, 8192, samples=20):
        text, _ = texts_of(sample)
        for line in text.split("\n"):
            assert "# file: django/" not in line or line.startswith("# file: django/")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_address_makes_the_same_samples(tasks, name):
    first, again = built(tasks, name), built(tasks, name)
    assert [sample.sample_id for sample in first] == [sample.sample_id for sample in again]
    assert [sample.doc for sample in first] == [sample.doc for sample in again]
    other = built(tasks, name, seed=2)
    assert not {sample.sample_id for sample in first} & {sample.sample_id for sample in other}


@pytest.mark.parametrize("name", NAMES)
def test_depths_are_uniform(tasks, name):
    samples = built(tasks, name, 16384, samples=100)
    depths = [depth for sample in samples for depth in sample.doc["depths_percent"]]
    counts = [sum(low <= depth < low + 10 for depth in depths) for low in range(0, 100, 10)]
    counts[-1] += sum(depth == 100 for depth in depths)
    assert sum(counts) == len(depths)
    assert chisquare(counts).pvalue > 0.05


@pytest.mark.parametrize("name", ["code_find_function", "code_definition", "code_complete_line", "code_execute"])
def test_depth_says_nothing_about_the_order_of_questions(tasks, name):
    depths = [sample.depth_percent for sample in built(tasks, name, 8192)]
    assert depths != sorted(depths)


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: type(builder).__name__)
@pytest.mark.parametrize("count", [1, 7, 40])
def test_a_haystack_has_a_question_for_each_number(builder, count):
    haystack = builder.haystack(range(3, 3 + count), 0.5, random.Random(count))
    assert len(haystack.questions) == count
    answers = [question.answers[0] for question in haystack.questions]
    assert len(set(answers)) == count
    for question in haystack.questions:
        assert set(question.distractors) == set(answers) - set(question.answers)
        json.dumps(dict(question.fields))


def test_a_chain_is_followed_through_all_its_functions():
    haystack = CallChain(calls=4).haystack(range(5), 0.3, random.Random(0))
    for question in haystack.questions:
        name = question.fields["question"].split("does ")[1].split("(")[0]
        for step, index in enumerate(question.needles):
            text = haystack.needles[index].text
            assert f"def {name}(" in text
            if step < 3:
                name = re.findall(r"(\w+_\w+)\(", text)[1]
            else:
                assert question.answers[0] in text
        depths = [haystack.needles[index].depth_percent for index in question.needles]
        assert len(set(depths)) == 4


def test_kinds_of_definitions_are_asked_for_equally_often():
    haystack = FindDefinition().haystack(range(9), 0.3, random.Random(0))
    kinds = [question.fields["question"].split("What is the ")[1].split(" of ")[0] for question in haystack.questions]
    assert (
        sorted(kinds) == sorted(3 * ["decorator", "default value", "parent class"][:3])[: len(kinds)] or len(kinds) == 9
    )
    assert {kind: kinds.count(kind) for kind in kinds} == {"decorator": 3, "default value": 3, "parent class": 3}


def test_more_questions_than_definitions_are_refused():
    with pytest.raises(ConfigError, match="lower questions_per_haystack"):
        FindFunction().haystack(range(600), 0.3, random.Random(0))


@pytest.mark.parametrize("calls", [0, 1, True, 2.5, "three"])
def test_parameters_out_of_range_are_refused(calls):
    with pytest.raises(ConfigError, match=f"calls={calls!r}; use a whole number from"):
        CallChain.from_metadata({"calls": calls})


def test_programs_are_not_asked_for_where_they_cannot_be_run(monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    sandbox.require.cache_clear()
    with pytest.raises(PlanError, match="on Linux with x86_64 or aarch64; this is win32"):
        Execute.from_metadata({})
    monkeypatch.undo()
    Execute.from_metadata({})
