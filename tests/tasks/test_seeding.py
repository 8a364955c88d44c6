from __future__ import annotations

from kveval.tasks.seeding import seeded


def test_the_same_address_gives_the_same_numbers_everywhere():
    assert seeded("niah_single", 4096, 3, 0).getrandbits(32) == 1110371562
    assert seeded("niah_single", 4096, 3, 1).getrandbits(32) != 1110371562


def test_addresses_do_not_run_together():
    assert seeded("a", 1, 23).random() != seeded("a", 12, 3).random()
    assert seeded("a", "1").random() != seeded("a", 1).random()
