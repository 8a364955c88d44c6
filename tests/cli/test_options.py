"""How the values of shared flags are read."""

from __future__ import annotations

import pytest

from kveval.cli.options import given, lengths, names
from kveval.errors import UsageError


def test_flags_that_are_not_given_leave_the_configuration_alone() -> None:
    assert given(seed=0, out=None, tasks=[]) == {"seed": 0, "tasks": []}


def test_lists_are_cut_at_commas() -> None:
    assert names(" bf16, fp8,,") == ["bf16", "fp8"]
    assert names("") == []
    assert names(None) is None


def test_lengths_may_be_written_in_k() -> None:
    assert lengths("4k, 512") == [4096, 512]
    assert lengths(None) is None


def test_a_wrong_length_names_its_flag() -> None:
    with pytest.raises(UsageError, match=r"--context-lengths: .*many"):
        lengths("4k,many", "--context-lengths")
