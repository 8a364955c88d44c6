from __future__ import annotations

from support.samples import sample

from kveval.measure.launching.work import Remaining


def test_what_was_in_flight_when_a_server_broke_is_suspect() -> None:
    samples = [sample("a", n) for n in range(4)]
    remaining = Remaining(samples)
    for one in samples[:3]:
        remaining.begin(one)
    remaining.done(samples[0])
    assert remaining.unsuspected() == samples[1:]
    remaining.suspect_in_flight()
    assert remaining.suspects() == samples[1:3]
    assert remaining.unsuspected() == samples[3:]
    remaining.done(samples[1])
    assert remaining.suspects() == samples[2:3]
