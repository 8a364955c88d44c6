"""The faults, one function each: what goes wrong is drawn at random, what is right after it is not.

Codes: 0 pass, 1 a loss, 2 the input, 3 infrastructure, 5 undecided, 70 a crash, 130 and 143 interrupted. None of the
faults here makes the candidate worse, so 1 is never right, and 70 never is.
"""

from __future__ import annotations

import random
import signal
from typing import Any

from benchmarks.soak.case import KILLED, QUESTIONS, Act, Case, Variant, codes, fault

_BROKEN = codes(3)
_NO_PASS = codes(3, 5)
_WELL = codes(0)


def _variant(draw: random.Random) -> Variant:
    return draw.choice(("bf16", "fp8"))


def _moment(draw: random.Random) -> int:
    return draw.randrange(3, QUESTIONS - 10)


def _server(draw: random.Random, kind: str, *, early: bool = False, **more: Any) -> dict[Variant, dict[str, Any]]:
    """`early`: a second launch, which asks only the rest, meets the fault again."""
    return {
        _variant(draw): {"kind": kind, "after": draw.randrange(3, QUESTIONS // 3) if early else _moment(draw), **more}
    }


def _to_mend(servers: dict[Variant, dict[str, Any]], **more: Any) -> Case:
    """A server fails for good: infrastructure, and ``--resume`` with a server that is well makes the run whole."""
    return Case(_BROKEN, _BROKEN, servers, resumed=_WELL, resumed_gate=_WELL, **more)


# ---- nothing, which shows that a healthy run passes here
@fault
def nothing(draw: random.Random) -> Case:
    """No fault: a pass, or no case that does not pass would show anything."""
    return Case(_WELL, _WELL, launched=draw.random() < 0.5)


# ---- kills
@fault
def harness_killed(draw: random.Random) -> Case:
    """SIGKILL: no code of its own. The gate refuses the run that was cut short, and ``--resume`` completes it."""
    act = Act("kill_harness", _variant(draw), draw.randrange(0, QUESTIONS - 10), int(signal.SIGKILL))
    return Case(codes(KILLED), _BROKEN, act=act, launched=draw.random() < 0.6, resumed=_WELL, resumed_gate=_WELL)


@fault
def harness_interrupted(draw: random.Random) -> Case:
    """Ctrl-C or SIGTERM: 128 plus the signal, nothing left running, and ``--resume`` completes the run."""
    number = draw.choice((signal.SIGINT, signal.SIGTERM))
    act = Act("kill_harness", _variant(draw), draw.randrange(0, QUESTIONS - 10), int(number))
    return Case(
        codes(128 + number), _BROKEN, act=act, launched=draw.random() < 0.6, resumed=_WELL, resumed_gate=_WELL,
        within_s=60,
    )  # fmt: skip


@fault
def launched_server_killed(draw: random.Random) -> Case:
    """A launched server dies once: it is launched again, and as the same server, so the answers count."""
    act = Act(draw.choice(("kill_server", "kill_core", "kill_worker")), _variant(draw), _moment(draw))
    return Case(_WELL, _WELL, act=act, launched=True)


@fault
def launched_server_keeps_dying(draw: random.Random) -> Case:
    """It dies at every launch: given up after the second, with what it has."""
    kind = draw.choice(("exit", "exit_in_answer", "kill_core"))
    return _to_mend(_server(draw, kind, early=True, with_={"stubborn": draw.random() < 0.5}), launched=True)


@fault
def launched_server_never_starts(draw: random.Random) -> Case:
    """It dies or hangs while it starts."""
    kind = draw.choice(("dies_at_start", "never_ready"))
    return _to_mend({_variant(draw): {"kind": kind}}, launched=True, config={"engine": {"startup_timeout_s": 4}})


@fault
def attached_server_killed(draw: random.Random) -> Case:
    """Nobody starts it again: the variant stops with what it has."""
    act = Act("kill_server", _variant(draw), _moment(draw), int(draw.choice((signal.SIGKILL, signal.SIGTERM))))
    return Case(_BROKEN, _BROKEN, act=act, resumed=_WELL, resumed_gate=_WELL)


# ---- restarts
_OTHERS: tuple[dict[str, Any], ...] = (
    {"cache_dtype": "int8_per_token_head"}, {"version": "0.30.0"}, {"capacity": 3_000}, {"window": 4096},
    {"root": "/models/other"}, {"cache_dtype": "fp8_e5m2", "version": "0.31.0"},
)  # fmt: skip


@fault
def restarted_with_other_flags(draw: random.Random) -> Case:
    """Another server answers from some question on: what it answered is not used, and that is infrastructure."""
    details = {"facts": draw.choice(_OTHERS), "restarts": draw.random() < 0.5}
    return _to_mend(_server(draw, "changed", with_=details))


@fault
def killed_and_back_with_other_flags(draw: random.Random) -> Case:
    """The process itself is another: as above, and the break between the two may be seen first."""
    act = Act("restart_server", _variant(draw), _moment(draw), draw.choice(_OTHERS))
    return Case(_BROKEN, _BROKEN, act=act, resumed=_WELL, resumed_gate=_WELL)


@fault
def killed_and_back_as_it_was(draw: random.Random) -> Case:
    """The same server comes back: it may be attached to once more, or be given up, but never half counted."""
    act = Act("restart_server", _variant(draw), _moment(draw), {})
    return Case(codes(0, 3), codes(0, 3), act=act, resumed=_WELL, resumed_gate=_WELL)


# ---- answers
@fault
def garbage_answers(draw: random.Random) -> Case:
    """Fluent nonsense from some question on. Of the candidate it may be called a loss, which it is; never a pass."""
    servers = _server(draw, "garbage", early=True)
    (variant,) = servers
    # A candidate that answers wrongly has lost, for whatever reason.
    gate = _NO_PASS if variant == "bf16" else codes(1, 3, 5)
    return Case(codes(0, 3), gate, servers)


@fault
def garbage_bytes(draw: random.Random) -> Case:
    """Streams of noise, or pages of a proxy, from some question on: no answers, so infrastructure."""
    launched = draw.random() < 0.3
    return _to_mend(_server(draw, draw.choice(("bytes", "html")), early=launched), launched=launched)


@fault
def half_answers(draw: random.Random) -> Case:
    """Streams that break off or never end properly, for good: no answers, so infrastructure."""
    launched, details = draw.random() < 0.3, {"done": draw.random() < 0.5}
    kind = draw.choice(("cut", "unended", "abort"))
    return _to_mend(_server(draw, kind, early=launched, with_=details), launched=launched)


@fault
def some_half_answers(draw: random.Random) -> Case:
    """Two requests in a row break off: they are sent again, and the answers count."""
    return Case(_WELL, _WELL, _server(draw, draw.choice(("cut", "abort")), count=2))


@fault
def empty_answers(draw: random.Random) -> Case:
    """Empty answers are answers, and wrong ones: no pass, and a loss if it is the candidate's."""
    servers = _server(draw, "empty", early=True)
    (variant,) = servers
    return Case(codes(0, 3), _NO_PASS if variant == "bf16" else codes(1, 3, 5), servers)


@fault
def other_name_in_answers(draw: random.Random) -> Case:
    """Another model answers from some question on."""
    return _to_mend(_server(draw, "renamed"))


@fault
def stall(draw: random.Random) -> Case:
    """Requests are taken and never answered: they time out, so infrastructure."""
    return _to_mend(_server(draw, draw.choice(("stall", "slow"))), config={"requests": {"timeout_s": 2}})


@fault
def short_stall(draw: random.Random) -> Case:
    """Some answers take a second: nothing is wrong."""
    return Case(_WELL, _WELL, _server(draw, "slow", count=draw.randrange(1, 20), with_={"seconds": 1}))


# ---- status codes
@fault
def storm_of_errors(draw: random.Random) -> Case:
    """HTTP 500, 502 or 503 to everything, for good."""
    launched, details = draw.random() < 0.3, {"status": draw.choice((500, 502, 503))}
    return _to_mend(_server(draw, "status", early=launched, with_=details), launched=launched)


@fault
def passing_storm(draw: random.Random) -> Case:
    """A few errors that pass: requests are sent again. Two in a row for one question at most, of three attempts."""
    details = {"status": draw.choice((500, 502, 503, 429, 408))}
    return Case(_WELL, _WELL, _server(draw, "status", count=2, with_=details))


@fault
def rate_limited(draw: random.Random) -> Case:
    """HTTP 429 with Retry-After for a while: waited for, as the server asks."""
    details = {"status": 429, "headers": {"Retry-After": "1"}}
    return Case(_WELL, _WELL, _server(draw, "status", count=draw.randrange(5, QUESTIONS // 6), with_=details))


@fault
def rate_limited_for_good(draw: random.Random) -> Case:
    """HTTP 429 with Retry-After without an end, also with dates of a wrong clock: given up in bounded time."""
    when = draw.choice(("1", "3600", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "soon", "-5"))
    details = {"status": 429, "headers": {"Retry-After": when}}
    return _to_mend(_server(draw, "status", with_=details), config={"requests": {"timeout_s": 3}})


@fault
def refuses_requests(draw: random.Random) -> Case:
    """HTTP 400, 401, 404 or 413 to everything from some question on."""
    details = {"status": draw.choice((400, 401, 403, 404, 413))}
    return _to_mend(_server(draw, "status", with_=details))


@fault
def refuses_every_second(draw: random.Random) -> Case:
    """HTTP 400 to every second question: too many are not answered, and ``--resume --retry-errors`` asks them again."""
    details = {"status": 400, "message": "sampler assert"}
    return _to_mend(_server(draw, "status", early=True, every=2, with_=details))


# ---- /metrics
_NO_METRICS = ("metrics_lost", "metrics_html", "metrics_error")


@fault
def metrics_lost(draw: random.Random) -> Case:
    """What vouched for the cache is gone until the end: nothing says that the same cache answered. Never a pass."""
    launched = draw.random() < 0.3
    return _to_mend(_server(draw, draw.choice(_NO_METRICS), early=launched), launched=launched)


@fault
def metrics_dropped(draw: random.Random) -> Case:
    """/metrics breaks the connection. A launched server is launched again, and the new one says what its cache is."""
    launched = draw.random() < 0.3
    servers = _server(draw, "metrics_dropped", early=launched)
    return Case(_WELL, _WELL, servers, launched=True) if launched else _to_mend(servers)


@fault
def metrics_lost_for_a_while(draw: random.Random) -> Case:
    """Gone for some questions and back before the end: the last reading vouches for all answers."""
    kind = draw.choice((*_NO_METRICS, "metrics_dropped"))
    servers: dict[Variant, dict[str, Any]] = {
        _variant(draw): {
            "kind": kind,
            "after": draw.randrange(3, QUESTIONS // 2),
            "count": draw.randrange(5, QUESTIONS // 3),
        }
    }
    return Case(_WELL, _WELL, servers)


@fault
def counters_spoiled(draw: random.Random) -> Case:
    """Counters that count nothing or go back: a warning. The answers are as they were."""
    return Case(_WELL, _WELL, _server(draw, draw.choice(("metrics_nan", "metrics_reset"))))


# ---- the machine
@fault
def harness_clock_jumps(draw: random.Random) -> Case:
    """The clock of the harness jumps by hours or years: durations are measured by another clock."""
    seconds = draw.choice((-3600, 3600, -86_400 * 365, 86_400 * 365, -40, 40))
    return Case(_WELL, _WELL, act=Act("jump_clock", _variant(draw), _moment(draw), seconds))


@fault
def files_limited(draw: random.Random) -> Case:
    """The disk takes no more of the answers' file: the input (2) or the machine (3). ``--resume`` completes the run."""
    act = Act("limit_files", _variant(draw), _moment(draw), draw.randrange(0, 3000))
    return Case(codes(2, 3), codes(2, 3), act=act, launched=draw.random() < 0.3, resumed=_WELL, resumed_gate=_WELL)


@fault
def power_cut(draw: random.Random) -> Case:
    """Lines amid the answers are broken: the gate refuses the run (2), and ``--resume`` asks what they held again."""
    act = Act("kill_harness", "fp8", _moment(draw), int(signal.SIGKILL))
    damage: Any = draw.choice(("zeros", "torn", "glued"))
    return Case(codes(KILLED), _BROKEN, act=act, damage=damage, resumed=_WELL, resumed_gate=_WELL)


@fault
def disk_full(draw: random.Random) -> Case:
    """The disk of the run directory is full: as above. If every answer was written before, the gate may pass."""
    disk_kib = draw.randrange(60, 400)
    return Case(codes(2, 3), codes(0, 2, 3), disk_kib=disk_kib, resumed=_WELL, resumed_gate=_WELL)
