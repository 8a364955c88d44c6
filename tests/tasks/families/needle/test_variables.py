from __future__ import annotations

import random
import re
from itertools import pairwise
from math import comb

from hypothesis import given
from hypothesis import strategies as st

from kveval.tasks.families.needle.variables import Chains


def holders(needles, value):
    """Follows the assignments, as a reader would."""
    found = {value}
    for needle in needles:
        name, source = re.fullmatch(r"VAR ([A-Z]{5}) = (?:VAR )?(\w{5})\.", needle.text).groups()
        if source in found:
            found.add(name)
    return found - {value}


@given(count=st.integers(1, 20), hops=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_a_reader_who_follows_the_assignments_finds_the_answers(count, hops, seed):
    haystack = Chains(chains=1, hops=hops).haystack(range(count), 0.5, random.Random(seed))
    assert len(haystack.needles) == count * (hops + 1)
    assert all(a.depth_percent < b.depth_percent for a, b in pairwise(haystack.needles))
    for question in haystack.questions:
        value = question.fields["question"].split("the value ")[1].split(" ")[0]
        assert holders(haystack.needles, value) == set(question.answers)
        assert len(question.answers) == hops + 1
        assert set(question.answers).isdisjoint(question.distractors)
        named = " ".join(haystack.needles[i].text for i in question.needles)
        assert all(answer in named for answer in question.answers)


def test_with_one_question_the_haystack_is_rulers():
    haystack = Chains().haystack(range(1), 0.5, random.Random(0))
    assert len(haystack.needles) == 5
    assert haystack.questions[0].distractors == ()


def test_links_of_a_chain_are_far_apart():
    haystack = Chains().haystack(range(10), 0.5, random.Random(0))
    for question in haystack.questions:
        depths = [haystack.needles[i].depth_percent for i in question.needles]
        assert all(0 < later - earlier < 40 for earlier, later in pairwise(depths))
        assert depths[0] < 20
        assert depths[-1] >= 80


def test_guessing_planted_variables_stays_below_the_stated_chance():
    planted, asked = 50, 5
    chances = []
    for named in range(1, planted + 1):
        most = min(asked, named)
        found = {k: comb(asked, k) * comb(planted - asked, named - k) / comb(planted, named) for k in range(most + 1)}
        chances.append(sum(p * max(2 * k - named, 0) / asked for k, p in found.items()))
    assert max(chances) <= 0.02 + 1e-9
