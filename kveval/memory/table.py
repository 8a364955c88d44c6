"""Shows an estimate in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kveval.formats.backends import devices_of
from kveval.memory.budget import GIB, Budget
from kveval.memory.estimate import MemoryEstimate

_MIB = 1 << 20


def memory_table(model: str, sizes: MemoryEstimate) -> RenderableType:
    """Return tables of `sizes`, the estimate for the checkpoint `model`."""
    return Group(_head(model, sizes), _formats(sizes), _lengths(sizes), Text("\n".join(_notes(sizes))))


def _head(model: str, sizes: MemoryEstimate) -> Table:
    head = Table(show_header=False, box=None)
    head.add_column(no_wrap=True)
    head.add_column(overflow="fold")
    layers = ", ".join(f"{count} {kind}" for kind, count in sizes.layers.items())
    if sizes.span_tokens:
        layers += f" ({sizes.span_tokens:,} tokens)"
    head.add_row("model", Text(f"{model} ({sizes.model_type or 'no model_type'})"))
    head.add_row("layers with a cache", layers)
    if sizes.window_tokens:
        head.add_row("context window", f"{sizes.window_tokens:,} tokens")
    if sizes.budget is not None:
        head.add_row("memory for the cache", _budget(sizes.budget))
    if sizes.tensor_parallel > 1:
        head.add_row("tensor parallel", f"{sizes.tensor_parallel}; all bytes are those of one device")
    return head


def _budget(budget: Budget) -> str:
    cache = _human(budget.cache_bytes)
    if budget.memory_bytes is None or budget.weight_bytes is None:
        return cache
    return (
        f"{cache} = {budget.memory_bytes / GIB:.2f} GiB x {budget.utilization} "
        f"- {_human(budget.weight_bytes)} of weights"
    )


def _human(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB else f"{size_bytes / _MIB:.2f} MiB"


def _count(number: int | None) -> str:
    return f"{number:,}" if number else "none"


def _formats(sizes: MemoryEstimate) -> Table:
    table = Table(title="per token; block, capacity and longest context in tokens", title_justify="left")
    has_span = any(row.bytes_per_token_in_span for row in sizes.formats)
    has_state = any(row.state_bytes_per_sequence for row in sizes.formats)
    table.add_column("format", no_wrap=True)
    table.add_column("bytes/token", justify="right")
    if has_span:
        table.add_column("in window", justify="right")
    if has_state:
        table.add_column("state", justify="right")
    table.add_column("block", justify="right")
    if sizes.budget is not None:
        table.add_column("capacity", justify="right")
        table.add_column("longest", justify="right")
    for row in sizes.formats:
        cells = [row.format, f"{row.bytes_per_token:,}"]
        cells += [f"{row.bytes_per_token_in_span:,}"] if has_span else []
        cells += [_human(row.state_bytes_per_sequence)] if has_state else []
        cells.append(f"{row.block_tokens:,}")
        cells += [f"{row.capacity_tokens:,}", _count(row.longest_context_tokens)] if sizes.budget is not None else []
        table.add_row(*cells)
    return table


def _lengths(sizes: MemoryEstimate) -> Table:
    table = Table(title="per sequence", title_justify="left")
    table.add_column("context", justify="right")
    table.add_column("format", no_wrap=True)
    table.add_column("per sequence", justify="right")
    if sizes.budget is not None:
        table.add_column("sequences that fit", justify="right")
        table.add_column("server's own count", justify="right")
    for same_length in zip(*(row.lengths for row in sizes.formats), strict=True):
        for row, length in zip(sizes.formats, same_length, strict=True):
            cells = [f"{length.context_length:,}", row.format, _human(length.sequence_bytes)]
            cells += [_count(length.sequences), f"{length.server_concurrency:,.2f}"] if sizes.budget is not None else []
            table.add_row(*cells)
        table.add_section()
    return table


def _storage_notes(sizes: MemoryEstimate) -> list[str]:
    """Say where a format is stored in another layout, and where it is not stored at all."""
    notes = []
    partly: dict[str, list[str]] = {}
    for row in sizes.formats:
        if row.stored_as != row.format:
            notes.append(f"On {', '.join(row.devices)}, vLLM stores {row.format} as {row.stored_as}.")
        notes += [
            f"On {', '.join(other.devices)}, vLLM stores {row.format} as {other.stored_as}: {other.bytes_per_token:,} "
            f"bytes/token. Use --device {other.devices[0]} to size it."
            for other in row.other_storage
        ]
        stored_on = {*row.devices, *(device for other in row.other_storage for device in other.devices)}
        everywhere = devices_of(sizes.device)
        if len(stored_on) < len(everywhere):
            partly.setdefault(", ".join(one for one in everywhere if one in stored_on), []).append(row.format)
    notes += [f"vLLM stores {', '.join(names)} on {devices} only." for devices, names in partly.items()]
    return notes


def _notes(sizes: MemoryEstimate) -> list[str]:
    notes = ["Scales are counted; a sequence takes whole blocks.", *_storage_notes(sizes)]
    if sizes.budget is None:
        return notes
    too_large = [row.format for row in sizes.formats if not row.longest_context_tokens]
    if too_large:
        notes.append(f"Nothing fits in {', '.join(too_large)}: the server would not start, whatever the context.")
    if sizes.budget.lfs_pointers:
        notes.append(
            f"The weights are not there: {sizes.budget.lfs_pointers} of their files are Git LFS pointers. They tell "
            "the sizes. Run `git lfs pull` before you serve the model."
        )
    if sizes.budget.memory_bytes is not None:
        notes.append(
            "Activations and CUDA graphs take memory too: this is the most that fits. With --cache, give the engine's "
            'own "Available KV cache memory".'
        )
    if sizes.span_tokens:
        notes.append(
            "The server counts every sequence as if it were computing its prompt, with up to "
            f"{sizes.in_flight_tokens:,} tokens beyond the window."
        )
    return notes
