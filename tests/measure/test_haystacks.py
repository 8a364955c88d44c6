from __future__ import annotations

from support.samples import sample

from kveval.measure.haystacks import group_by_haystack


def test_groups_keep_the_order_of_samples_short_contexts_first() -> None:
    samples = [
        sample("long", 0, shared=900),
        sample("a", 0),
        sample("b", 0),
        sample("a", 1),
        sample("long", 1, shared=901),
    ]
    groups = group_by_haystack(samples)
    assert [g.haystack_id for g in groups] == ["a", "b", "long"]
    assert [[s.sample_id for s in g.samples] for g in groups] == [["a-0", "a-1"], ["b-0"], ["long-0", "long-1"]]
