"""Which dtype a model computes in, as vLLM decides it before it is launched.

Read from vLLM 0.32: `_get_and_verify_dtype` and `_resolve_auto_dtype` (vllm/config/model.py), `get_torch_dtype`
(vllm/transformers_utils/model_arch_config_convertor.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kveval.errors import ConfigError
from kveval.models.checkpoint import Model
from kveval.models.weights import read_weights

DEVICE_DTYPES = ("bfloat16", "float16", "float32")
"""What a device computes in where it cannot be asked, the preferred one first."""

_SPELLED = {"half": "float16", "float": "float32"}
_IN_SAFETENSORS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
# `_FLOAT16_NOT_SUPPORTED_MODELS` in vllm/config/model.py.
_WITHOUT_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")


def compute_dtype(model: Model, flag: object = None, device_dtypes: Sequence[str] = DEVICE_DTYPES) -> str | None:
    """Return the dtype that a model computes in: bfloat16, float16 or float32. None if its weights cannot be read.

    Args:
        flag: what ``--dtype`` says; None without the flag.
        device_dtypes: what the device computes in, the preferred one first.
    """
    asked = _spelled(flag)
    if asked not in (None, "auto"):
        return asked
    stored = _in_config(model)
    if stored is None:
        try:
            stored = _in_weights(model)
        except ConfigError:
            return None
    usable = [one for one in device_dtypes if not (one == "float16" and _lacks_float16(model))]
    # A float32 checkpoint is cast to what the device prefers, and so is what the device does not compute in.
    return stored if stored in usable and stored != "float32" else usable[0]


def _spelled(value: object) -> str | None:
    if value is None:
        return None
    name = str(value).lower().removeprefix("torch.")
    return _SPELLED.get(name, name)


def _in_config(model: Model) -> str | None:
    parts = (model.config, model.text_config, model.config.get("vision_config"), model.config.get("encoder_config"))
    for part in parts:
        if isinstance(part, Mapping):
            stored = _spelled(part.get("dtype") or part.get("torch_dtype"))
            if stored is not None:
                return stored
    return None


def _in_weights(model: Model) -> str:
    weights = read_weights(model.path)
    tensors = weights.tensors.values() if weights else ()
    found = {_IN_SAFETENSORS[one.dtype] for one in tensors if one.dtype in _IN_SAFETENSORS}
    return found.pop() if len(found) == 1 else "float32"


def _lacks_float16(model: Model) -> bool:
    return model.config.get("model_type") in _WITHOUT_FLOAT16
