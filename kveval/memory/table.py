"""An estimate for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kveval.memory.budget import GIB

_MIB = 1 << 20


def memory_table(document: Mapping[str, Any]) -> RenderableType:
    """What `kveval.memory.estimate.estimate` gives."""
    return Group(_head(document), _sizes(document), _lengths(document), Text("\n".join(_notes(document))))


def _head(document: Mapping[str, Any]) -> Table:
    head = Table(show_header=False, box=None)
    head.add_column(no_wrap=True)
    head.add_column(overflow="fold")
    layers = ", ".join(f"{count} {kind}" for kind, count in document["layers"].items())
    if document["span_tokens"]:
        layers += f" ({document['span_tokens']:,} tokens)"
    head.add_row("model", f"{document['model']} ({document['model_type'] or 'no model_type'})")
    head.add_row("layers with a cache", layers)
    if document["window_tokens"]:
        head.add_row("context window", f"{document['window_tokens']:,} tokens")
    if document["cache_bytes"] is not None:
        head.add_row("memory for the cache", _budget(document))
    if document["tensor_parallel"] > 1:
        head.add_row("tensor parallel", f"{document['tensor_parallel']}; all bytes are those of one device")
    return head


def _budget(document: Mapping[str, Any]) -> str:
    cache = _human(document["cache_bytes"])
    if document["memory_bytes"] is None:
        return cache
    return (
        f"{cache} = {document['memory_bytes'] / GIB:.2f} GiB x {document['utilization']} "
        f"- {document['weight_bytes'] / GIB:.2f} GiB of weights"
    )


def _human(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB else f"{size_bytes / _MIB:.2f} MiB"


def _count(number: int) -> str:
    return f"{number:,}" if number else "none"


def _sizes(document: Mapping[str, Any]) -> Table:
    table = Table(title="per token; block, capacity and longest context in tokens", title_justify="left")
    formats = document["formats"]
    has_span = any(row["bytes_per_token_in_span"] for row in formats)
    has_state = any(row["state_bytes_per_sequence"] for row in formats)
    has_budget = document["cache_bytes"] is not None
    table.add_column("format", no_wrap=True)
    table.add_column("bytes/token", justify="right")
    if has_span:
        table.add_column("in window", justify="right")
    if has_state:
        table.add_column("state", justify="right")
    table.add_column("block", justify="right")
    if has_budget:
        table.add_column("capacity", justify="right")
        table.add_column("longest", justify="right")
    for row in formats:
        cells = [row["format"], f"{row['bytes_per_token']:,}"]
        cells += [f"{row['bytes_per_token_in_span']:,}"] if has_span else []
        cells += [_human(row["state_bytes_per_sequence"])] if has_state else []
        cells.append(f"{row['block_tokens']:,}")
        cells += [f"{row['capacity_tokens']:,}", _count(row["longest_context_tokens"])] if has_budget else []
        table.add_row(*cells)
    return table


def _lengths(document: Mapping[str, Any]) -> Table:
    has_budget = document["cache_bytes"] is not None
    table = Table(title="per sequence", title_justify="left")
    table.add_column("context", justify="right")
    table.add_column("format", no_wrap=True)
    table.add_column("per sequence", justify="right")
    if has_budget:
        table.add_column("sequences that fit", justify="right")
        table.add_column("server's own count", justify="right")
    formats = document["formats"]
    for index, first in enumerate(formats[0]["lengths"] if formats else []):
        for row in formats:
            length = row["lengths"][index]
            cells = [f"{first['context_length']:,}", row["format"], _human(length["sequence_bytes"])]
            cells += [_count(length["sequences"]), f"{length['server_concurrency']:,.2f}"] if has_budget else []
            table.add_row(*cells)
        if index + 1 < len(formats[0]["lengths"]):
            table.add_section()
    return table


def _notes(document: Mapping[str, Any]) -> list[str]:
    notes = ["Scales are counted; a sequence takes whole blocks."]
    if document["cache_bytes"] is not None:
        too_large = [row["format"] for row in document["formats"] if not row["longest_context_tokens"]]
        if too_large:
            notes.append(f"Nothing fits in {', '.join(too_large)}: the server would not start, whatever the context.")
        if document["memory_bytes"] is not None:
            notes.append(
                "Activations and CUDA graphs take memory too: this is the most that fits. With --cache, the engine's "
                'own "Available KV cache memory".'
            )
        if document["span_tokens"]:
            notes.append(
                "The server counts every sequence as if it were computing its prompt, with up to "
                f"{document['in_flight_tokens']:,} tokens beyond the window."
            )
    return notes
