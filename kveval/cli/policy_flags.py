"""The flags of a command that judges: one for each key of the policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Annotated, Any, get_origin

import typer

from kveval.config.judge import Policy
from kveval.errors import UsageError


def policy_flags(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command one flag per key of `Policy`, in place of its parameter `policy`. `without` leaves keys out.

    The command gets the keys that were given, with their values. A flag's help is the field's description.
    """
    keys = [key for key in Policy.model_fields if key not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            given = {key: arguments.pop(key) for key in keys}
            policy = {key: _value(key, value) for key, value in given.items() if value is not None}
            command(policy=policy, **arguments)

        signature = inspect.signature(command, eval_str=True)
        parameters = [
            parameter
            for own in signature.parameters.values()
            for parameter in ([_flag(key) for key in keys] if own.name == "policy" else [own])
        ]
        with_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_flags

    return decorate


def _flag(key: str) -> inspect.Parameter:
    field = Policy.model_fields[key]
    kind = field.annotation if field.annotation in (int, float, bool) else str
    annotation = Annotated[kind | None, typer.Option(help=field.description)]  # type: ignore[valid-type]
    return inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def _value(key: str, given: Any) -> Any:
    if get_origin(Policy.model_fields[key].annotation) is not dict:
        return given
    values = {}
    for part in given.split(","):
        name, _, number = part.partition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            raise UsageError(f"--{key}: {part!r} is not NAME=NUMBER; use for example needle=0.01,code=0.05") from None
    return values
