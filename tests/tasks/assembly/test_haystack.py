from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.families import STAND_IN, context_of

from kveval.errors import ConfigError, PlanError
from kveval.tasks.assembly.haystack import build_samples, frame_texts
from kveval.tasks.assembly.placement import SLACK_TOKENS
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question
from kveval.tasks.builders.sources import Cut
from kveval.tasks.families.needle.builder import ManySubjects, ManyValues, OfManyKinds, OfOneKind
from kveval.tasks.sample import Sample
from kveval.tasks.task import Cell, Task

BUILDERS = {
    "single": OfManyKinds(),
    "multikey": OfOneKind(keys=16),
    "multivalue": ManyValues(values=4),
    "multiquery": ManySubjects(keys=16, subjects=4),
}
COUNTED = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def make_task(builder, name="a_task", **changes) -> Task:
    task = Task(
        name=name,
        family="needle",
        version="1",
        description="",
        render=lambda doc: f"Read this.\n\n{doc['context']}\n\n{doc['question']}",
        score=lambda *_: {"score": 0.0},
        builder=builder,
        max_output_tokens=32,
        answer_prefix=lambda doc: f"\nAnswer: {doc.get('answer_lead', '')}",
    )
    return dataclasses.replace(task, **changes)


def make_cell(context_length=2048, samples=10, questions=10, seed=0, style="generated") -> Cell:
    return Cell("a_task", context_length, samples, questions, seed, style)


def check(task: Task, cell: Cell, prompt_format: PromptFormat) -> list[Sample]:
    """Everything that holds for every cell."""
    samples = build_samples(task, cell, prompt_format)
    assert len(samples) == cell.samples
    assert len({sample.sample_id for sample in samples}) == cell.samples
    for sample in samples:
        assert cell.context_length - SLACK_TOKENS <= len(sample.prompt) <= cell.context_length
        ids = sample.prompt.token_ids()
        assert ids.dtype == np.int32
        assert ids.min() >= 0
        assert ids.max() < prompt_format.tokenizer.vocab_size
        context = context_of(task, sample, prompt_format)
        for answer in sample.doc["answers"]:
            assert context.count(answer) == 1
        for distractor in sample.doc["distractors"]:
            assert context.count(distractor) == 1
        for answer, excerpt in zip(sample.doc["answers"], sample.doc["excerpts"], strict=True):
            assert answer in excerpt
        json.dumps(dict(sample.doc), allow_nan=False)
    for haystack in {sample.haystack_id for sample in samples}:
        shared = {id(sample.prompt.shared) for sample in samples if sample.haystack_id == haystack}
        assert len(shared) == 1
    return samples


@COUNTED
@given(
    kind=st.sampled_from(sorted(BUILDERS)),
    context_length=st.integers(1400, 5000),
    samples=st.integers(1, 12),
    questions=st.integers(1, 6),
    seed=st.integers(0, 2**31),
)
def test_prompts_have_the_asked_length_and_hold_their_answers_once(kind, context_length, samples, questions, seed):
    check(make_task(BUILDERS[kind]), make_cell(context_length, samples, questions, seed), STAND_IN)


@dataclasses.dataclass(frozen=True)
class AtDepths(Builder):
    """Plants one needle at each of the asked depths and asks for all of them."""

    depths: list[float]
    least_cut: Cut = Cut.WORD

    def haystack(self, numbers, depth_shift, rng):
        needles = [Needle(f"The code of box {i} is {7000000 + i}.", depth) for i, depth in enumerate(self.depths)]
        questions = [
            Question(
                {"question": f"What is the code of box {n % len(needles)}?"},
                (str(7000000 + n % len(needles)),),
                (n % len(needles),),
            )
            for n in numbers
        ]
        return Haystack(needles, questions, frozenset(), None, self.least_cut)


@COUNTED
@given(
    first=st.floats(0, 100), second=st.floats(0, 100), context_length=st.integers(1024, 6000), seed=st.integers(0, 99)
)
def test_needles_stand_within_one_percent_of_the_asked_depth(first, second, context_length, seed):
    task = make_task(AtDepths([first, second] if abs(first - second) > 5 else [first]))
    samples = build_samples(task, make_cell(context_length, 2, 2, seed), STAND_IN)
    for sample, asked in zip(samples, task.builder.depths, strict=False):
        assert abs(sample.depth_percent - asked) <= 1.0
        context = context_of(task, sample)
        needle = context.index("The code of box " + sample.doc["question"].split()[-1].rstrip("?"))
        before = len(STAND_IN.encode(context[:needle]))
        tokens = len(STAND_IN.encode(context))
        assert abs(100 * before / tokens - asked) <= 2.5  # the needle's own length and chunking left out


def test_the_reported_depth_counts_tokens_exactly():
    task = make_task(AtDepths([37.0]))
    sample = build_samples(task, make_cell(4096, 1, 1), STAND_IN)[0]
    head, foot = frame_texts(task, STAND_IN, sample.doc)
    needle = STAND_IN.encode(" The code of box 0 is 7000000.")
    ids = sample.prompt.token_ids()
    starts = [i for i in range(len(ids)) if np.array_equal(ids[i : i + len(needle)], needle)]
    before = starts[0] - len(STAND_IN.encode(head))
    context_tokens = len(ids) - len(STAND_IN.encode(head)) - len(STAND_IN.encode(foot))
    assert sample.depth_percent == round(100 * before / (context_tokens - len(needle)), 3)


def test_depth_0_opens_the_context_and_depth_100_closes_it():
    task = make_task(AtDepths([0.0, 100.0]))
    first, last = build_samples(task, make_cell(2048, 2, 2), STAND_IN)
    assert context_of(task, first).startswith("The code of box 0 is 7000000.")
    assert first.depth_percent == 0.0
    assert last.depth_percent >= 99.0


def test_needles_stand_between_sentences_where_there_is_room():
    task = make_task(AtDepths([20.0, 55.5, 80.0]))
    for sample in build_samples(task, make_cell(8192, 3, 3), STAND_IN):
        context = context_of(task, sample)
        assert all(
            re.search(r"[.!?]$", part.rstrip()) for part in re.split(r"The code of box \d is \d+\.", context)[:-1]
        )


def test_needles_stand_between_whole_pieces_when_asked():
    task = make_task(AtDepths([20.0, 80.0], Cut.PIECE))
    context = context_of(task, build_samples(task, make_cell(4096, 1, 1), STAND_IN)[0])
    assert len(re.findall(r"The code of box \d is \d+\.\n\n", context)) == 2


def test_samples_do_not_depend_on_order_or_company():
    task, cell = make_task(BUILDERS["single"]), make_cell(2048, 25, 8)
    together = [sample.sample_id for sample in build_samples(task, cell, STAND_IN)]
    build_samples(task, make_cell(4096, 30, 10, seed=3), PromptFormat.stand_in())
    assert [sample.sample_id for sample in build_samples(task, cell, PromptFormat.stand_in())] == together


def test_samples_are_the_same_on_every_machine():
    sample = build_samples(make_task(BUILDERS["single"]), make_cell(1024, 4, 2), STAND_IN)[0]
    assert (sample.sample_id, sample.haystack_id) == ("feb63eb208a06b32", "377cfc273ba4fa8e")


def test_the_sample_id_is_a_hash_of_what_is_asked_and_expected():
    task = make_task(BUILDERS["single"])
    sample = build_samples(task, make_cell(1024, 2, 2), STAND_IN)[1]
    digest = hashlib.sha256(json.dumps(["a_task", "1", 1024, 32, []]).encode())
    digest.update(sample.prompt.token_ids().astype("<i4").tobytes())
    digest.update(json.dumps([len(sample.prompt), sample.doc["answers"]]).encode())
    assert sample.sample_id == digest.hexdigest()[:16]


@pytest.mark.parametrize(
    "changes", [{"name": "b_task"}, {"version": "2"}, {"max_output_tokens": 33}, {"stop": ("\n",)}], ids=str
)
def test_the_sample_id_changes_with_the_task(changes):
    cell = make_cell(1024, 2, 2)
    before = build_samples(make_task(AtDepths([50.0])), cell, STAND_IN)[0]
    after = build_samples(make_task(AtDepths([50.0]), **changes), cell, STAND_IN)[0]
    assert before.sample_id != after.sample_id


def test_seeds_lengths_and_haystacks_differ():
    task = make_task(BUILDERS["single"])
    openings = Counter(
        sample.prompt.shared[20:60].tobytes()
        for cell in (make_cell(1024, 10, 2), make_cell(1024, 10, 2, seed=1), make_cell(1500, 10, 2))
        for sample in build_samples(task, cell, STAND_IN)
    )
    assert set(openings.values()) == {2}


def test_only_the_last_few_dozen_tokens_differ_within_a_haystack():
    for sample in build_samples(make_task(BUILDERS["multikey"]), make_cell(8192, 10, 10), STAND_IN):
        assert len(sample.prompt.tail) <= 64


def test_depths_cover_the_context_evenly():
    samples = build_samples(make_task(BUILDERS["single"]), make_cell(8192, 400, 10), STAND_IN)
    depths = [sample.depth_percent for sample in samples]
    counts, _ = np.histogram(depths, bins=20, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05
    assert len(set(depths)) > 390
    for start in range(0, 400, 10):
        assert sorted(int(depth // 10) for depth in depths[start : start + 10]) == pytest.approx(range(10), abs=1)


def test_the_first_question_of_a_haystack_is_not_always_the_shallowest():
    samples = build_samples(make_task(BUILDERS["single"]), make_cell(2048, 200, 10), STAND_IN)
    firsts = [sample.depth_percent for sample in samples[::10]]
    assert min(firsts) < 30 < 70 < max(firsts)


def test_needles_that_do_not_fit_are_refused_with_the_minimum():
    task = make_task(BUILDERS["multivalue"], name="niah_multivalue")
    with pytest.raises(PlanError) as refused:
        build_samples(task, make_cell(700, 20, 10), STAND_IN)
    message = str(refused.value)
    assert "'niah_multivalue' at context_length 700, haystack 0" in message
    minimum, planted, around = map(
        int, re.search(r"use: (\d+) tokens or more \(\d+ needles need (\d+), .* question (\d+)\)", message).groups()
    )
    assert minimum == planted + around > 700
    build_samples(task, make_cell(minimum + 64, 20, 10), STAND_IN)


class Chatty:
    """A source whose every fifth piece holds what is planted."""

    name = "chatty"

    def text(self, index):
        return f"\n\nPiece {index} ends here." + (" The CODE of box 0 is a secret." if index % 5 == 0 else "")

    def order(self, rng):
        return iter(range(2000))


@dataclasses.dataclass(frozen=True)
class Secret(Builder):
    source: Chatty

    def haystack(self, numbers, depth_shift, rng):
        question = Question({"question": "What is the code of box 0?"}, ("7000000",), (0,))
        return Haystack(
            [Needle("The code of box 0 is 7000000.", 50)], [question], frozenset({"code of box 0"}), self.source
        )


def test_filler_that_says_what_is_planted_is_left_out():
    task = make_task(Secret(Chatty()))
    sample = build_samples(task, make_cell(2048, 1, 1), STAND_IN)[0]
    context = context_of(task, sample)
    assert context.lower().count("code of box 0") == 1
    assert "Piece 1 ends" in context
    assert sample.doc["haystack_style"] == "chatty"


def test_filler_is_never_repeated():
    with pytest.raises(PlanError, match="'chatty' ends after"):
        build_samples(make_task(Secret(Chatty())), make_cell(65536, 1, 1), STAND_IN)


def test_the_context_comes_before_the_question():
    task = make_task(BUILDERS["single"], render=lambda doc: f"{doc['question']}\n\n{doc['context']}")
    with pytest.raises(PlanError, match="before the context"):
        build_samples(task, make_cell(1024, 2, 2), STAND_IN)
    task = make_task(BUILDERS["single"], render=lambda doc: doc["question"])
    with pytest.raises(PlanError, match="holds the context 0 times"):
        build_samples(task, make_cell(1024, 2, 2), STAND_IN)


def test_a_real_tokenizer_in_chat_and_completion_style(smollm2):
    for style in ("chat", "completion"):
        prompt_format = PromptFormat.load(smollm2, style)
        rng = random.Random(0)
        for kind, builder in BUILDERS.items():
            for haystack_style in ("generated", "essays", "wikipedia"):
                cell = make_cell(rng.randrange(2000, 4000), 6, 3, rng.randrange(100), haystack_style)
                samples = check(make_task(builder, kind), cell, prompt_format)
                for sample in samples[:2]:
                    text = prompt_format.decode(sample.prompt.token_ids()[len(prompt_format.prefix_ids) :])
                    assert "\ufffd" not in text


def test_depths_hold_with_a_real_tokenizer_and_real_prose(smollm2):
    prompt_format = PromptFormat.load(smollm2)
    for depth in (0.0, 3.3, 21.0, 50.0, 77.7, 99.9, 100.0):
        for context_length in (1024, 3000):
            task = make_task(AtDepths([depth]))
            sample = build_samples(task, make_cell(context_length, 1, 1, int(depth), "essays"), prompt_format)[0]
            assert abs(sample.depth_percent - depth) <= 1.0


class WithoutFields(Builder):
    def haystack(self, numbers, depth_shift, rng):
        return Haystack([], [Question({}, ("7",)) for _ in numbers])


def test_fields_that_the_prompt_needs_and_a_question_lacks_are_named():
    with pytest.raises(ConfigError, match="task 'a_task': doc_to_text or gen_prefix fails: KeyError: 'question'"):
        build_samples(make_task(WithoutFields()), make_cell(1024, 3, 3), STAND_IN)


class Raises(Builder):
    def haystack(self, numbers, depth_shift, rng):
        raise ValueError("no")


def test_what_a_builder_raises_is_told_with_its_haystack():
    with pytest.raises(ConfigError, match="context_length 1024, haystack 0: its builder fails: ValueError: no"):
        build_samples(make_task(Raises()), make_cell(1024, 3, 3), STAND_IN)
