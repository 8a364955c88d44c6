import json
import subprocess
import sys

import pytest
from hypothesis import given
from pydantic import ValidationError
from support.emulation import INT8, specs

from kveval.engines.plugin import emulation
from kveval.engines.plugin.emulation import (
    ENVIRONMENT_VARIABLE,
    EmulationSpec,
)
from kveval.errors import ConfigError


@given(specs)
def test_a_spec_survives_the_environment(spec: EmulationSpec) -> None:
    assert EmulationSpec.from_env(spec.to_env()) == spec


def test_the_documented_environment_is_understood() -> None:
    text = '{"format": "int8", "granularity": "per_token_head", "layers": [3, 0], "scale": null}'

    spec = EmulationSpec.from_env({ENVIRONMENT_VARIABLE: text})

    assert spec == EmulationSpec(format="int8", granularity="per_token_head", layers=(0, 3))
    assert [layer for layer in range(5) if spec.selects(layer)] == [0, 3]


def test_no_variable_no_emulation() -> None:
    assert EmulationSpec.from_env({}) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "invalid JSON"),
        ("int8", "invalid JSON"),
        ("[]", "use: keys with values|should be an object"),
        ("{}", "format: field required"),
        ({"format": "int9"}, "format: .*unknown cache format 'int9'"),
        ({"granularity": "per_row"}, "granularity: .*unknown granularity 'per_row'.*per_token_head"),
        ({"group": 32}, "group: extra inputs are not permitted"),
        ({"layers": []}, "layers: use: a list with at least one entry"),
        ({"layers": [-1]}, "layers.0: use: 0 or more"),
        ({"layers": "all"}, "layers: "),
        ({"granularity": "per_tensor", "scale": 0}, "scale: use: 1e-06 or more"),
        ({"scale": 0.5}, "scale 0.5 needs granularity 'per_tensor', not 'per_token_head'"),
    ],
)
def test_a_broken_variable_is_refused_in_one_line(text: str | dict, reason: str) -> None:
    if isinstance(text, dict):
        text = json.dumps({"format": "int8", "granularity": "per_token_head", **text})

    with pytest.raises(ConfigError, match=f"^{ENVIRONMENT_VARIABLE}=.*{reason}") as raised:
        EmulationSpec.from_env({ENVIRONMENT_VARIABLE: text})

    assert "\n" not in str(raised.value)


def test_a_spec_rejects_unknown_keys_in_a_configuration() -> None:
    with pytest.raises(ValidationError, match="bits"):
        EmulationSpec(format="int8", granularity="per_token_head", bits=8)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        (INT8, "int8 per_token_head (emulated)"),
        (INT8.model_copy(update={"layers": (0, 3)}), "int8 per_token_head (emulated, layers 0 3)"),
        (EmulationSpec(format="int4", granularity="per_block_32"), "int4 per_block_32 (emulated)"),
        (
            EmulationSpec(format="fp8_e4m3", granularity="per_tensor", scale=0.5),
            "fp8_e4m3 per_tensor at scale 0.5 (emulated)",
        ),
    ],
)
def test_a_label_says_emulated(spec: EmulationSpec, label: str) -> None:
    assert spec.label() == label


def test_register_without_the_variable_imports_nothing_heavy() -> None:
    script = (
        "import sys; from kveval.engines.plugin.emulation import register; register(); "
        "print({'torch', 'vllm', 'transformers'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", script], env={}, capture_output=True, text=True, check=True)

    assert result.stdout == "set()\n"


def test_the_entry_point_is_declared() -> None:
    from importlib.metadata import entry_points

    (plugin,) = entry_points(group="vllm.general_plugins", name="kveval_emulation")

    assert plugin.load() is emulation.register
