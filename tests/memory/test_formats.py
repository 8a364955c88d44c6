from __future__ import annotations

from typing import Any

import pytest
from support.model_configs import DENSE

from kveval.errors import UsageError
from kveval.memory.estimate import estimate


@pytest.mark.parametrize(
    ("model", "names", "words"),
    [
        (DENSE, ["fp9"], ["'fp9' is not a cache format", "did you mean 'fp8'"]),
        (DENSE, ["auto"], ["'auto' cannot be sized: it is the model's own dtype"]),
        (DENSE, [], ["--formats: none given"]),
        (DENSE, ["fp8_ds_mla"], ["made for latent (MLA) caches", "use for this model: bfloat16"]),
        ({**DENSE, "head_dim": 72}, ["nvfp4"], ["multiple of 16, not 72"]),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 32, "qk_rope_head_dim": 8}, ["nvfp4"],
            ["vLLM stores no latent (MLA) cache in it"],
        ),
        ({**DENSE, "head_dim": 96}, ["nvfp4"], ["no attention backend of vLLM takes it for this model on gpu"]),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}, ["fp8_ds_mla"],
            ["fp8_ds_mla: no attention backend of vLLM takes it", "use for this model: bfloat16, float16,"],
        ),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}, ["int8"],
            ["int8_per_token_head: vLLM stores no latent (MLA) cache in it"],
        ),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 32, "qk_rope_head_dim": 8}, ["fp8_ds_mla"],
            ["made for 576 latent values, not 40"],
        ),
    ],
)  # fmt: skip
def test_formats_that_do_not_fit_are_refused(model: dict[str, Any], names: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        estimate(model, "config.json", window=None, formats=names)
    for word in words:
        assert word in str(caught.value)
