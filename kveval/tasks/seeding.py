"""Makes random generators that depend on an address alone."""

from __future__ import annotations

import hashlib
import json
import random


def seeded(*address: str | int) -> random.Random:
    """Returns a generator seeded by the sha256 of an address such as (task, context_length, haystack index, seed).

    The same address gives the same numbers on every machine, in every order, alone or in a batch.
    """
    digest = hashlib.sha256(json.dumps(address).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311
