from __future__ import annotations

import socket

import pytest

from kveval.engines.ports import check_port, free_port
from kveval.errors import UsageError


def test_a_free_port_is_free() -> None:
    check_port(free_port())


def test_a_taken_port_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=rf"engine\.port: {port} is taken; use: a free port"):
            check_port(port)
