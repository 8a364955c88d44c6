"""What each cache dtype of vLLM stores, in kveval's own terms; and back."""

from __future__ import annotations

from kveval.config.sweep import EmulationConfig

# Of a checkpoint without k/v scales (vllm/config/cache.py). vLLM's int4_per_token_head, nvfp4 and turboquant rotate K
# and V or pack scales in ways that quant/ does not reproduce.
STORED_AS = {
    "fp8": EmulationConfig(format="fp8_e4m3", granularity="per_tensor", scale=1.0),
    "fp8_e4m3": EmulationConfig(format="fp8_e4m3", granularity="per_tensor", scale=1.0),
    "fp8_e5m2": EmulationConfig(format="fp8_e5m2", granularity="per_tensor", scale=1.0),
    "fp8_per_token_head": EmulationConfig(format="fp8_e4m3", granularity="per_token_head"),
    "int8_per_token_head": EmulationConfig(format="int8", granularity="per_token_head"),
}


def native_equivalent(emulated: EmulationConfig) -> str | None:
    """The cache dtype that stores what `emulated` rounds to; None where vLLM has none."""
    # Without a scale, fp8 per tensor is rounded at 1.0 as well.
    if emulated.format.startswith("fp8") and emulated.granularity == "per_tensor" and emulated.scale is None:
        emulated = emulated.model_copy(update={"scale": 1.0})
    return next((dtype for dtype, stored in STORED_AS.items() if stored == emulated), None)
