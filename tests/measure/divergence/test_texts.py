"""The texts are chosen by the plan: spread over lengths and haystacks, the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.errors import ConfigError, PlanError
from kveval.measure.divergence.texts import chosen_samples
from kveval.measure.plan.describe import describe


def test_nothing_is_planned_unless_asked_for(plan_of: Planner) -> None:
    assert plan_of().texts == []


def test_lengths_take_turns_and_new_haystacks_come_first(plan_of: Planner) -> None:
    plan = plan_of(context_lengths=[512, 1024], samples=6, questions_per_haystack=3)
    chosen = chosen_samples(plan.samples, 4, 0)
    assert [sample.context_length for sample in chosen] == [512, 1024, 512, 1024]
    assert len({sample.haystack_id for sample in chosen}) == 4
    assert chosen == chosen_samples(plan.samples[::-1], 4, 0)
    assert chosen_samples(plan.samples, 2, 0) == chosen[:2]
    assert len(chosen_samples(plan.samples, 99, 0)) == len(plan.samples)


def test_a_text_is_forced_at_its_end_after_all_that_comes_before(plan_of: Planner, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("one two three four five six seven")
    ids = plan_of().prompt_format.encode(path.read_text()).tolist()
    for tokens in (2, len(ids) - 1, 10_000):
        text = plan_of(divergence={"samples": 0, "tokens": tokens, "texts": [str(path)]}).texts[0]
        assert text.token_ids is not None
        assert [*text.prompt_ids, *text.token_ids] == ids
        assert text.tokens == len(text.token_ids) == min(tokens, len(ids) - 1)
        assert (text.kind, text.source, text.row().prompt_tokens) == ("text", "own.txt", len(ids) - text.tokens)


def test_another_setting_is_another_text(plan_of: Planner) -> None:
    settings = [{"tokens": 8}, {"tokens": 9}, {"top_k": 5}, {"tokens": 8}]
    first, longer, fewer, again = (plan_of(divergence={"samples": 2, **one}).texts[0] for one in settings)
    assert first.text_id == again.text_id
    assert len({first.text_id, longer.text_id, fewer.text_id}) == 3


def test_the_server_has_room_for_the_longest_text(plan_of: Planner) -> None:
    plain, plan = plan_of(), plan_of(divergence={"samples": 1, "tokens": 3000})
    assert plan.max_model_len >= len(plan.texts[0].prompt_ids) + 3000 > plain.max_model_len
    described = describe(plan)
    assert any("1 texts, 3,000 tokens" in note for note in described["notes"])
    assert described["estimate"]["assumes"].endswith("; the time that `divergence` takes is not included")
    with pytest.raises(PlanError, match=r"divergence\.tokens: 9000: .* do not fit"):
        plan_of(divergence={"samples": 1, "tokens": 9000})


def test_servers_that_already_run_are_said_to_give_none(plan_of: Planner) -> None:
    variants = [
        {"name": name, "kv_cache_dtype": dtype, "endpoint": {"url": "http://host:1/v1", "model": name}}
        for name, dtype in (("bf16", "bfloat16"), ("fp8", "fp8"))
    ]
    plan = plan_of(variants=variants, baseline="bf16", divergence={"samples": 1, "tokens": 8})
    assert (
        "divergence: not measured, because outputs cannot be forced on servers that already run"
        in describe(plan)["notes"]
    )


def test_texts_that_cannot_be_used_are_named(plan_of: Planner, tmp_path: Path) -> None:
    def planned(*paths: Path) -> None:
        plan_of(divergence={"samples": 0, "texts": [str(path) for path in paths]})

    with pytest.raises(ConfigError, match=r"gone\.txt cannot be read"):
        planned(tmp_path / "gone.txt")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=r"latin\.txt cannot be read as UTF-8"):
        planned(tmp_path / "latin.txt")
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(PlanError, match=r"empty\.txt has 0 tokens; use a text of two or more"):
        planned(tmp_path / "empty.txt")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the very same text")
    with pytest.raises(PlanError, match=r"b\.txt holds the same text"):
        planned(tmp_path / "a.txt", tmp_path / "b.txt")
    with pytest.raises(ConfigError, match="samples, texts: 0 and empty"):
        planned()
