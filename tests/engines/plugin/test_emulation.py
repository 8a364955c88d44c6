from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError
from support.emulation import INT8, specs

from kveval.engines.plugin import emulation
from kveval.engines.plugin.emulation import (
    ENVIRONMENT_VARIABLE,
    EmulationFacts,
    EmulationSpec,
    coverage_line,
    live_line,
    parse_log,
    refused_line,
    requested_line,
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
        ("{}", "format: required, not given"),
        ({"format": "int9"}, "format: .*unknown cache format 'int9'"),
        ({"granularity": "per_row"}, "granularity: .*unknown granularity 'per_row'.*per_token_head"),
        ({"group": 32}, "unknown key 'group'"),
        ({"layers": []}, "layers: .* not allowed; use: a list with at least one entry"),
        ({"layers": [-1]}, "layers.0: -1 is not allowed; use: 0 or more"),
        ({"layers": "all"}, "layers: "),
        ({"granularity": "per_tensor", "scale": 0}, "scale: 0 is not allowed; use: 1e-06 or more"),
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


LOG_START = "(Worker pid=7) INFO 11-29 17:05:45 [emulation.py:151] "


@given(specs)
def test_a_spec_survives_the_log(spec: EmulationSpec) -> None:
    assert parse_log(f"{LOG_START}{requested_line(spec)}\n").requested == spec


def test_a_silent_log_says_nothing() -> None:
    facts = parse_log("INFO Using CPU_ATTN backend.\nINFO CPU KV cache size: 1,024 tokens\n")

    assert facts == EmulationFacts()
    assert not facts.is_live


def test_announced_is_not_live() -> None:
    facts = parse_log(f"{LOG_START}kveval emulation: rounding K and V to int8 per_token_head, all layers\n")

    assert facts == EmulationFacts(requested=INT8)
    assert not facts.is_live


def test_a_live_log_carries_its_evidence() -> None:
    lines = [requested_line(INT8), live_line(0, 61, 3.9e-3, 4.1e-3)]
    facts = parse_log("".join(f"{LOG_START}{line}\n" for line in lines))

    assert lines[1] == "kveval emulation: live, layer 0, 61 tokens, relative error K 3.900e-03 V 4.100e-03"
    assert facts == EmulationFacts(requested=INT8, relative_error_k=3.9e-3, relative_error_v=4.1e-3)
    assert facts.is_live


@pytest.mark.parametrize(
    ("spec", "steps", "rounded", "unrounded"),
    [
        (INT8, [({0, 1, 2}, (), ())], (0, 1, 2), ()),
        (INT8, [({0, 2}, (), {1})], (0, 2), (1,)),
        # Four ranks of one layer, and two stages of a pipeline.
        (INT8, [({0, 1}, (), ()), ({0, 1}, (), ())], (0, 1), ()),
        (INT8, [({0, 1}, (), ()), ({2}, (), {3})], (0, 1, 2), (3,)),
        # Layers that were not asked for may be reached or not.
        (INT8.model_copy(update={"layers": (0, 2)}), [({0, 2}, {1}, {3})], (0, 2), ()),
        (INT8.model_copy(update={"layers": (0, 3)}), [({0}, {1, 2}, {3})], (0,), (3,)),
        (INT8, [], None, None),
    ],
)
def test_the_log_says_which_layers_were_rounded(
    spec: EmulationSpec, steps: list[Any], rounded: tuple[int, ...] | None, unrounded: tuple[int, ...] | None
) -> None:
    lines = [requested_line(spec), *(coverage_line(*step) for step in steps)]
    facts = parse_log("".join(f"{LOG_START}{line}\n" for line in lines))
    assert (facts.rounded_layers, facts.unrounded_layers) == (rounded, unrounded)


@pytest.mark.parametrize("error_v", [0.0, float("nan")])
def test_rounding_that_changed_nothing_is_not_live(error_v: float) -> None:
    assert not parse_log(live_line(0, 61, 3.9e-3, error_v)).is_live


def test_the_weakest_worker_counts() -> None:
    log = "\n".join([live_line(0, 61, 4e-3, 4e-3), live_line(0, 61, 4e-3, 0.0)])

    assert not parse_log(log).is_live


def test_a_refusal_stands_on_one_line() -> None:
    line = refused_line("cannot emulate int8 on top of\nkv_cache_dtype 'fp8'")

    assert line == "kveval emulation: refused, cannot emulate int8 on top of kv_cache_dtype 'fp8'"
