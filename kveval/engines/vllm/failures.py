"""Why a vLLM server died, in its own words, and what to do about it.

The words of GPU engines are those of the source of vLLM 0.32: read, not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# What vLLM says, and what to do. Where a pattern has groups, only they are shown.
_HINTS = (
    (r"kveval emulation: refused, .*", "the emulation plugin refused to start"),
    (r"Selected backend .* is not valid for this configuration.*", "this backend cannot read this cache dtype"),
    (r"(No valid attention backend found for \w+)\b.*?(Reasons: .*)",
     "no attention backend of this device reads this cache dtype with heads of this size; `kveval memory MODEL "
     "--device DEVICE` lists what is stored there"),
    (r"To serve at least one request with the model's max seq len.*",
     "the cache is too small for the longest context: raise engine.kv_cache_gib (CPU) or gpu-memory-utilization, "
     "or lower context_lengths"),
    (r"No available memory for the cache blocks",
     "the weights leave no memory for the cache: raise engine.kv_cache_gib (CPU) or gpu-memory-utilization, or use "
     "more devices (tensor-parallel-size)"),
    (r"User-specified max_model_len .* is greater than the derived max_model_len.*",
     "the model is not made for so many tokens: lower context_lengths or max-model-len"),
    (r"FP8 KV cache (?:on CPU )?requires.*", "this processor or head size has no native FP8 cache; emulate it"),
    (r"(?:FP8|bfloat16) KV cache is not supported.*requires SM\d+\+.*",
     "this GPU is too old for this cache dtype; use another dtype, or emulate it"),
    (r"Free memory on device .* is less than .*",
     "something else still holds the device's memory: stop it, or lower gpu-memory-utilization in engine.args"),
    (r"Error in memory profiling.*", "something else used the device's memory meanwhile: stop it, and start again"),
    (r"(?i)(?:CUDA |HIP )?out of memory.*", "lower gpu-memory-utilization or free the device"),
    (r"(?i)address already in use", "engine.port is taken; leave it out to take a free one"),
    (r"operator torchvision::nms does not exist", "`pip uninstall torchvision torchaudio torchcodec`"),
    (r"error: (?:unrecognized arguments|argument)\b.*", "the engine does not know this flag; see engine.args"),
)  # fmt: skip

# The memory of an engine that was stopped is released a moment after its process is gone.
_MEMORY_HELD = re.compile(r"Free memory on device .* is less than |Error in memory profiling")

# "(EngineCore pid=1) ERROR 11-29 17:22:59 [core.py:1510] " before a line of vLLM; the process alone before others.
_PREFIX = re.compile(r"(?:\((?P<process>[^()]+? pid=\d+)\) ?)?(?:(?P<level>[A-Z]+) [\d-]+ [\d:]+ \[[^\]]+\] ?)?")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ERROR = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)(?::|$)|Exception: |[\w./ -]+: error: "
    r"|kveval emulation: refused, "
)
# What other processes say once one has failed: never the cause.
_CONSEQUENCE = re.compile(
    r"(?:Engine core|WorkerProc) initialization failed|Frontend process failed during engine core initialization"
    r"|EngineCore encountered an issue|EngineDeadError|Engine core process .* died unexpectedly"
    r"|Process \S+ \(PID: \d+\) died with exit code|CancelledError|BrokenPipeError|ConnectionResetError|EOFError"
)
_END = re.compile(
    r"EngineCore encountered a fatal error|WorkerProc hit an exception|(?:EngineCore|WorkerProc) failed to start"
)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_MOST_CHARACTERS = 300


def memory_is_held(log: str) -> bool:
    """Whether the server found memory in use that may be released soon."""
    return _MEMORY_HELD.search(log) is not None


def why_it_died(log: str, *, is_starting: bool) -> str | None:
    """Returns what the server said was wrong, and what to do about it. None if it said nothing of the kind.

    Args:
        is_starting: whether it died before it was healthy. A server that ran may have logged errors that it survived.
    """
    cause = root_cause(log, is_starting=is_starting)
    for pattern, hint in _HINTS:
        match = re.search(pattern, cause or log)
        if match:
            said = ". ".join(group.strip(" .") for group in match.groups()) or match[0].strip()
            return f"{said[:_MOST_CHARACTERS]}; {hint}"
    return cause and cause[:_MOST_CHARACTERS]


def root_cause(log: str, *, is_starting: bool) -> str | None:
    """Returns the error that the others follow from: the first one, as it left its traceback.

    What other processes say of it ("See root cause above") is none. Of errors that a server survived, the last counts.
    """
    lines = list(_lines(log))
    ends = [number for number, (_, text) in enumerate(lines) if _END.search(text)]
    errors = list(_errors(lines[ends[0] :] if ends else lines)) or list(_errors(lines))
    if not errors:
        return None
    return errors[0] if is_starting or ends else errors[-1]


def _lines(log: str) -> Iterator[tuple[str, str]]:
    """Yields the process and the text of every line that is an error's or of a traceback, not one of a lower level."""
    for line in _COLOUR.sub("", log).splitlines():
        prefix = _PREFIX.match(line)
        level = prefix["level"] if prefix else None
        if level in (None, "ERROR", "CRITICAL"):
            text = line[prefix.end() :] if prefix else line
            if text.strip():
                yield (prefix["process"] or "" if prefix else "", text)


def _errors(lines: list[tuple[str, str]]) -> Iterator[str]:
    """Yields errors that are no consequence. Of exceptions that were raised one from another, the last."""
    pending: dict[str, str] = {}
    for number, (process, text) in enumerate(lines):
        if not _ERROR.match(text) or _CONSEQUENCE.search(text):
            continue
        following = next((other for owner, other in lines[number + 1 :] if owner == process), "")
        if text.rstrip().endswith(":") or "validation error for" in text:
            # pydantic says on the next line what is wrong.
            text = f"{text.rstrip()} {following.strip()}"
        if following.startswith(_CHAINED):
            pending[process] = text.strip()
            continue
        pending.pop(process, None)
        yield text.strip()
    yield from pending.values()
