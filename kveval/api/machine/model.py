"""At which context lengths a model fits, per cache format."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kveval.api.machine.check import Check
from kveval.memory.estimate import FormatSize, MemoryEstimate


def fit_checks(sizes: MemoryEstimate, stored: Collection[str] | None) -> Iterator[Check]:
    """Yields one line for each format. The baseline, which has 16 bits, is needed by every sweep; the others are not.

    Args:
        sizes: with a budget.
        stored: cache dtypes that the device stores; the others are left out. None where that is not known.
    """
    for size in sizes.formats:
        if stored is not None and size.format not in stored:
            continue
        yield _fit(size, sizes.window_tokens, is_needed=size.format in ("bfloat16", "float16"), device=sizes.device)


def _fit(size: FormatSize, window: int | None, *, is_needed: bool, device: str) -> Check:
    name, longest = f"fits in {size.format}", size.longest_context_tokens or 0
    raise_it = "raise engine.kv_cache_gib" if device == "cpu" else "use a larger GPU, or tensor-parallel-size in args"
    if not longest:
        return Check(name, "missing" if is_needed else "note", "no context: the engine would not start", raise_it)
    fitting = [f"{one.sequences:,} of {one.context_length:,}" for one in size.lengths if one.sequences]
    found = f"up to {longest:,} tokens"
    if fitting:
        found += f"; at once {', '.join(fitting)} tokens"
    if window is None or longest >= window:
        return Check(name, "ok", found)
    return Check(name, "note", f"{found}; the window of {window:,} does not fit", f"keep context_lengths and output "
                 f"below {longest:,}, or {raise_it}")  # fmt: skip
