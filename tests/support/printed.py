"""What a terminal of some width shows."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def printed(*parts: RenderableType, width: int = 120) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file)
    for part in parts:
        console.print(part, crop=False)
    return file.getvalue()
