from __future__ import annotations

from typing import Any

import pytest

from kveval.config.engine import flags
from kveval.config.speculation import KEYS, expand_speculative
from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.metrics import counters
from kveval.engines.speculation import (
    check_speculation,
    judge_drafts,
    judge_partner,
    partner_of,
    speculation_notes,
    with_drafts_judged,
)
from kveval.engines.variants import Device, ResolvedVariant, resolve
from kveval.engines.vllm.facts import speculation_facts
from kveval.engines.vllm.findings import judge_facts
from kveval.errors import ConfigError, PlanError
from kveval.run.facts import Facts, Finding

CPU, GPU = Device("cpu", frozenset({"avx512f"})), Device("cuda")
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
METRICS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 10.0
vllm:spec_decode_num_drafts_total{engine="1"} 30.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0"} 1.7e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 80.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 50.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 20.0
"""
LOG = "Initializing a V1 LLM engine (v0.32.0) with config: model='m', speculative_config=SpeculativeConfig(\
method='ngram', model=None, num_spec_tokens=2), tokenizer='m'"


def config(*variants: Any) -> SweepConfig:
    given = ["bf16", *variants]
    return validate_config({"model": "m", "variants": given, "tasks": ["t"], "context_lengths": [512]})


def resolved(*variants: Any, device: Device = CPU) -> list[ResolvedVariant]:
    return [resolve(v, device, "baseline" if v.name == "bf16" else "candidate") for v in config(*variants).variants]


def speculating(wanted: Any = NGRAM, **changes: Any) -> dict[str, Any]:
    return {"name": "ngram", "kv_cache_dtype": "bfloat16", "speculative_config": wanted, **changes}


def families(text: str) -> list[Any]:
    from prometheus_client.parser import text_string_to_metric_families

    return list(text_string_to_metric_families(text))


class TestConfiguration:
    def test_is_passed_on_as_json(self) -> None:
        given = config(speculating()).variant("ngram").speculative_config
        assert given == NGRAM
        assert flags({"speculative-config": given}) == [
            "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}',
        ]  # fmt: skip

    def test_method_is_inferred_as_vllm_does(self) -> None:
        assert expand_speculative({"model": "ngram", "num-speculative-tokens": 2}) == {
            "method": "ngram", "model": "ngram", "num_speculative_tokens": 2,
        }  # fmt: skip
        assert (expand_speculative({"model": "/models/draft"}) or {})["method"] == "draft_model"
        assert expand_speculative(None) is None

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            ("ngram", ["'ngram' is not a mapping", "use for example {method: ngram"]),
            ({"method": "n-gram"}, ["method: 'n-gram'", "did you mean 'ngram'?"]),
            ({"num_speculative_tokens": 4}, ["method: required"]),
            ({"method": "ngram"}, ["num_speculative_tokens: required by ngram"]),
            ({**NGRAM, "num_speculative_tokens": 0}, ["num_speculative_tokens: 0", "from 1 on"]),
            ({**NGRAM, "num_speculative_tokens": True}, ["num_speculative_tokens: True"]),
            ({**NGRAM, "prompt_lookup_min": 5}, ["prompt_lookup_min: 5 is above prompt_lookup_max (4)"]),
            ({**NGRAM, "prompt_lokup_max": 5}, ["unknown key 'prompt_lokup_max'", "did you mean 'prompt_lookup_max'?"]),
            ({**NGRAM, "draft_load_config": {1, 2}}, ["cannot be written as JSON"]),
            ({**NGRAM, "suffix_decoding_max_spec_factor": float("nan")}, ["cannot be written as JSON"]),
            ({**NGRAM, "rejection_sample_method": "synthetic"}, ["accepts drafts unread"]),
            ({**NGRAM, "synthetic_acceptance_length": 2.0}, ["accepts drafts unread"]),
        ],
    )
    def test_what_is_not_allowed(self, wanted: Any, words: list[str]) -> None:
        with pytest.raises(ConfigError) as error:
            config(speculating(wanted))
        assert "variants.1.speculative_config: " in str(error.value)
        for word in words:
            assert word in str(error.value)

    def test_the_short_name_is_told_the_long_one(self) -> None:
        with pytest.raises(ConfigError, match=r"unknown key .*speculative'; did you mean 'speculative_config'"):
            config({"name": "a", "kv_cache_dtype": "fp8", "speculative": NGRAM})

    def test_keys_are_vllms(self) -> None:
        speculative = pytest.importorskip("vllm.config.speculative")
        fields = set(speculative.SpeculativeConfig.__dataclass_fields__)
        set_by_the_engine = {
            "target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config",
            # It is there to say that it is the wrong one.
            "tensor_parallel_size",
        }  # fmt: skip
        assert fields - set_by_the_engine == {*KEYS, "synthetic_acceptance_rates", "synthetic_acceptance_length"}


class TestPlanning:
    @pytest.mark.parametrize("method", ["ngram_gpu", "draft_model", "eagle"])
    def test_what_a_cpu_lacks(self, method: str) -> None:
        wanted = speculating({"method": method, "num_speculative_tokens": 2})
        with pytest.raises(PlanError, match=rf"method: '{method}' is for a GPU, .* allowed on CPU: ngram$"):
            check_speculation(resolved(wanted)[1], CPU)
        check_speculation(resolved(wanted, device=GPU)[1], GPU)
        check_speculation(resolved(speculating())[1], CPU)

    def test_a_control_would_compare_two_things(self) -> None:
        with pytest.raises(PlanError, match=r"variants.ngram.control: .* this variant speculates as well"):
            check_speculation(resolved(speculating(kv_cache_dtype="fp8", control="emulated"))[1], CPU)

    @pytest.mark.parametrize(
        ("variants", "partner"),
        [
            ([speculating()], "bf16"),
            (["fp8", speculating(kv_cache_dtype="fp8")], "fp8"),
            ([{"name": "other", "kv_cache_dtype": "fp8_e4m3"}, speculating(kv_cache_dtype="fp8_e4m3")], "other"),
            (["int8", speculating(kv_cache_dtype="int8")], "int8"),
            (["int4", speculating(emulate={"format": "int4"})], "int4"),
            ([speculating(kv_cache_dtype="fp8")], None),
            ([speculating(engine_args={"max-num-seqs": 4})], None),
            ([speculating(env={"A": "b"})], None),
            ([speculating(model="/other")], None),
            (["int4", speculating(emulate={"format": "int8"})], None),
        ],
    )
    def test_the_partner_differs_in_speculation_alone(self, variants: list[Any], partner: str | None) -> None:
        planned = resolved(*variants)
        found = partner_of(planned[-1], planned)
        assert (found.name if found else None) == partner
        assert partner_of(planned[0], planned) is None
        note = speculation_notes(planned)[0]
        if partner:
            assert note == f"ngram speculates (ngram): its answers are also compared with {partner}"
            assert judge_partner(planned[-1], planned) == []
        else:
            assert "no variant has this cache" in note
            assert [(f.level, f.code) for f in judge_partner(planned[-1], planned)] == [
                ("warning", "speculation_alone")
            ]


class TestFacts:
    def test_counters_are_summed_over_engines(self) -> None:
        assert counters(METRICS) == {
            "spec_drafts": 40.0, "spec_draft_tokens": 80.0, "spec_accepted_tokens": 50.0, "spec_accepted_at_0": 30.0,
            "spec_accepted_at_1": 20.0,
        }  # fmt: skip

    def test_established_from_metrics_and_log(self) -> None:
        found = speculation_facts(families(METRICS), LOG)
        assert found == {"speculative_tokens": 2, "speculative_method": "ngram"}
        assert speculation_facts([], LOG) == {}

    @pytest.mark.parametrize(
        ("wanted", "tokens", "method", "finding"),
        [
            (NGRAM, 4, "ngram", None),
            (NGRAM, 4, None, None),
            ({"method": "qwen3_next_mtp", "num_speculative_tokens": 1}, 1, "mtp", None),
            ({"method": "eagle", "model": "/m"}, 3, "eagle", None),
            (None, None, None, None),
            (NGRAM, None, None, ("error", "speculation_off")),
            (NGRAM, 4, "suffix", ("error", "speculation_other")),
            (NGRAM, 3, "ngram", ("error", "speculation_other")),
            (None, 4, "ngram", ("error", "speculation_unasked")),
        ],
    )
    def test_asked_and_in_force(
        self, wanted: Any, tokens: int | None, method: str | None, finding: tuple[str, str] | None
    ) -> None:
        variant = resolved(speculating(wanted), device=GPU)[1]
        found = judge_facts(Facts(speculative_tokens=tokens, speculative_method=method), variant, None)
        about_it = [(one.level, one.code) for one in found if one.code.startswith("speculation")]
        assert about_it == ([finding] if finding else [])

    @pytest.mark.parametrize(
        ("counted", "code"),
        [
            ({"spec_drafts": 10.0, "spec_draft_tokens": 40.0, "spec_accepted_tokens": 3.0}, None),
            (
                {"spec_drafts": 10.0, "spec_draft_tokens": 40.0, "spec_accepted_tokens": 0.0},
                "speculation_none_accepted",
            ),
            ({"spec_drafts": 0.0}, "speculation_no_drafts"),
            ({}, None),
        ],
    )
    def test_drafts(self, counted: dict[str, float], code: str | None) -> None:
        plain, variant = resolved(speculating())
        assert [one.code for one in judge_drafts(variant, counted)] == ([code] if code else [])
        assert judge_drafts(plain, counted) == []

    def test_a_second_launch_replaces_what_the_first_found(self) -> None:
        variant = resolved(speculating())[1]
        other = Finding(level="info", code="other", message="")
        first = with_drafts_judged(variant, [other], {"spec_drafts": 0.0})
        again = with_drafts_judged(variant, first, {"spec_drafts": 5.0, "spec_accepted_tokens": 0.0})
        assert [one.code for one in again] == ["other", "speculation_none_accepted"]
