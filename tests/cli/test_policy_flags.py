"""Flags of a judging command come from the policy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kveval.cli.policy_flags import policy_flags
from kveval.config.judge import Policy
from kveval.errors import UsageError


def given(*flags: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Runs a command that has policy flags, and returns the policy it got."""
    got: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @policy_flags(without=without)
    def command(*, policy: Mapping[str, Any], other: int = 3) -> None:
        got.update(policy, other=other)

    result = CliRunner().invoke(app, [*flags])
    if result.exception is not None:
        raise result.exception
    return got


@pytest.mark.parametrize("key", Policy.model_fields)
def test_every_key_of_the_policy_is_a_flag_with_a_description(key: str) -> None:
    values = {
        "margins": "needle=0.1", "unit_margins": "entries=0.1", "evidence": "both", "undecided": "allow",
        "tiers": "needle=advisory",
    }  # fmt: skip
    assert key in given(f"--{key.replace('_', '-')}", values.get(key, "0.5"))
    assert Policy.model_fields[key].description


def test_a_flag_that_is_not_given_is_not_passed() -> None:
    assert given("--margin", "2pt", "--other", "4") == {"margin": "2pt", "other": 4}


def test_margins_are_a_list_of_names_and_numbers() -> None:
    assert given("--margins", "needle=0.01, code=0.05")["margins"] == {"needle": "0.01", "code": "0.05"}


def test_tiers_are_a_list_of_names_and_tiers() -> None:
    assert given("--tiers", "needle=advisory, code=blocking")["tiers"] == {"needle": "advisory", "code": "blocking"}
    with pytest.raises(UsageError, match="--tiers: 'needle' is not NAME=TIER; use for example code=advisory"):
        given("--tiers", "needle")


@pytest.mark.parametrize("text", ["needle", "needle=0.1,"])
def test_a_broken_list_says_what_to_use(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=NUMBER; use for example"):
        given("--margins", text)


def test_a_key_that_means_nothing_to_a_command_is_no_flag() -> None:
    with pytest.raises(SystemExit):
        given("--undecided", "allow", without=("undecided",))
