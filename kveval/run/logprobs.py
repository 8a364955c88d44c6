"""Packs the logprobs of one answer into a string that a JSON record can hold."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from kveval.errors import RunDirectoryError

# 64 MiB hold 400,000 output tokens with 20 alternatives each. A small string can unpack to a thousand times its size.
_MAX_BYTES = 1 << 26


def pack_logprobs(token_ids: np.ndarray, logprobs: np.ndarray) -> str:
    """Packs the top alternatives of each output token into one string.

    Args:
        token_ids: int32 [tokens, k], most likely first, -1 where the engine gave fewer than k.
        logprobs: float32 [tokens, k], natural logarithm.

    Returns:
        base64 of zlib of a header (two uint32: tokens, k) and the two arrays, all little-endian.
    """
    header = np.array(token_ids.shape, dtype="<u4").tobytes()
    body = header + token_ids.astype("<i4").tobytes() + logprobs.astype("<f4").tobytes()
    return base64.b64encode(zlib.compress(body, 6)).decode("ascii")


def unpack_logprobs(packed: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `pack_logprobs` packed: (int32 [tokens, k], float32 [tokens, k]).

    Raises:
        RunDirectoryError: `pack_logprobs` did not make this string.
    """
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(base64.b64decode(packed, validate=True), _MAX_BYTES)
        if not inflater.eof:
            raise ValueError(f"cut off, or larger than {_MAX_BYTES} bytes")
        tokens, k = (int(n) for n in np.frombuffer(body[:8], dtype="<u4"))
        ids = np.frombuffer(body, dtype="<i4", count=tokens * k, offset=8).reshape(tokens, k)
        logprobs = np.frombuffer(body, dtype="<f4", count=tokens * k, offset=8 + 4 * tokens * k).reshape(tokens, k)
    except (ValueError, zlib.error) as error:
        raise RunDirectoryError(f"a record's logprobs are broken: {error}") from error
    return ids, logprobs
