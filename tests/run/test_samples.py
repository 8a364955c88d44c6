from __future__ import annotations

from kveval.run.samples import ids_sha256


def test_ids_hash_in_any_order() -> None:
    assert ids_sha256(["b", "a"]) == ids_sha256(["a", "b"])
    assert ids_sha256(["a"]) != ids_sha256(["a", "b"])
