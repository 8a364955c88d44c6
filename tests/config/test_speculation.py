"""What may be written as `speculative_config`."""

from __future__ import annotations

from typing import Any

import pytest
from support.variants import NGRAM, configured, speculating

from kveval.config.engine import flags
from kveval.config.speculation import KEYS, expand_speculative
from kveval.errors import ConfigError


def test_is_passed_on_as_json() -> None:
    given = configured(speculating()).variant("ngram").speculative_config
    assert given == NGRAM
    assert flags({"speculative-config": given}) == [
        "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}',
    ]  # fmt: skip


def test_method_is_inferred_as_vllm_does() -> None:
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
def test_what_is_not_allowed(wanted: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        configured(speculating(wanted))
    assert "variants.1.speculative_config: " in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_the_short_name_is_told_the_long_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key .*speculative'; did you mean 'speculative_config'"):
        configured({"name": "a", "kv_cache_dtype": "fp8", "speculative": NGRAM})


def test_keys_are_vllms() -> None:
    speculative = pytest.importorskip("vllm.config.speculative")
    fields = set(speculative.SpeculativeConfig.__dataclass_fields__)
    set_by_the_engine = {
        "target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config",
        # It is there to say that it is the wrong one.
        "tensor_parallel_size",
    }  # fmt: skip
    assert fields - set_by_the_engine == {*KEYS, "synthetic_acceptance_rates", "synthetic_acceptance_length"}
