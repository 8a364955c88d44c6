"""TCP ports of this machine."""

from __future__ import annotations

import socket

from kveval.errors import UsageError


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def check_port(port: int) -> None:
    """Raises UsageError if something listens on `port` already."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"engine.port: {port} is taken; use: a free port, or leave the key out to have one chosen"
            ) from error
