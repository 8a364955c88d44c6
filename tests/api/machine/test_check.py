from kveval.api.machine.check import Check, can_sweep
from kveval.errors import EngineNotInstalledError


def test_an_error_is_divided_into_what_is_wrong_and_what_to_do() -> None:
    error = EngineNotInstalledError("no engine: python has no vLLM; install it; or name another")
    check = Check.of_error("vLLM", error)
    assert (check.state, check.found) == ("missing", "no engine: python has no vLLM")
    assert check.todo == "install it; or name another"


def test_a_note_keeps_nobody_from_measuring() -> None:
    assert can_sweep([Check("a", "ok", ""), Check("b", "note", "")])
    assert not can_sweep([Check("a", "ok", ""), Check("b", "missing", "")])
