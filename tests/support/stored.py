"""The least of a record and a manifest that is valid, and the files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RECORD: dict[str, Any] = {
    "sample_id": "s", "haystack_id": "h", "variant": "bf16", "task": "niah_single", "family": "needle",
    "context_length": 512, "depth_percent": 50.0, "outcome": "correct", "score": 1.0, "output": "1", "sent_at": 1.0,
    "finish_reason": "stop", "prompt_tokens": 512, "cached_tokens": None, "output_tokens": 1, "ttft_ms": 1.0,
    "itl_ms": None, "total_ms": 2.0,
}  # fmt: skip

MANIFEST: dict[str, Any] = {
    "kveval_version": "0", "run_id": "r", "created": "2026-01-01T00:00:00+00:00", "config": {}, "inputs": {},
    "seeds": {}, "sampling": {}, "samples": 0, "samples_sha256": "", "baseline": "bf16", "versions": {}, "machine": {},
}  # fmt: skip


def left_behind(folder: Path) -> list[str]:
    """Names of all files in `folder` but locks."""
    return [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
