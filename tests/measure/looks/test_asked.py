from __future__ import annotations

from support.samples import sample

from kveval.measure.looks.asked import asked_samples, earlier_stops, stopped_early
from kveval.measure.looks.schedule import plan_looks
from kveval.run.looks import Stop


def stop(look: int, cause: str = "decided", reason: str = "decided") -> Stop:
    return Stop.model_validate({"look": look, "cause": cause, "reason": reason})


def test_a_stopped_length_is_asked_up_to_the_look_that_stopped_it() -> None:
    samples = [sample(f"{shared}-{n}", q, shared=shared) for shared in (100, 200) for n in range(12) for q in range(2)]
    looks = plan_looks([samples])
    asked = asked_samples(samples, looks, {110: stop(1)})
    assert len([one for one in asked if one.context_length == 110]) == 12
    assert len([one for one in asked if one.context_length == 210]) == 24
    assert asked_samples(samples, looks, {}) == samples


def test_the_stop_that_comes_first_holds() -> None:
    assert earlier_stops({1: stop(3), 2: stop(1)}, {}, {1: stop(2)}) == {1: stop(2), 2: stop(1)}


def test_what_is_said_of_a_variant_that_stopped_early() -> None:
    assert stopped_early(300, 300, {}) is None
    assert stopped_early(120, 300, {1: stop(1), 2: stop(2)}) == (
        "stopped at 120 of 300 questions (40%): every context length is decided"
    )
    budget = stop(1, "budget", "budget.samples of 100 does not hold the 120 questions of the next look")
    assert stopped_early(60, 300, {1: budget, 2: budget}) == f"stopped at 60 of 300 questions (20%): {budget.reason}"
