"""The flags of a command that judges: one for each key of the policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin

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
    # The policy reads the values itself, so that a flag takes what the key takes, such as 2pt.
    option = typer.Option(
        help=field.description, metavar=_metavar(field.annotation), show_default=_default(field.default)
    )
    annotation = Annotated[str | None, option]
    return inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def _default(value: Any) -> str:
    return f"the run's, or {value}" if value not in (None, {}) else "the run's"


def _metavar(annotation: Any) -> str:
    """Returns what a flag's value is called in ``--help``."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if get_origin(annotation) is dict:
        return "NAME=TIER,..." if get_origin(get_args(annotation)[1]) is Literal else "NAME=NUMBER,..."
    return "NUMBER"


def _value(key: str, given: str) -> Any:
    annotation = Policy.model_fields[key].annotation
    if get_origin(annotation) is not dict:
        return given
    values: dict[str, str] = {}
    for part in given.split(","):
        name, is_pair, value = part.partition("=")
        if not is_pair:
            form = _metavar(annotation).removesuffix(",...")
            example = "code=advisory" if form == "NAME=TIER" else "needle=0.01,code=0.05"
            raise UsageError(f"--{key.replace('_', '-')}: {part!r} is not {form}; use for example {example}")
        values[name.strip()] = value.strip()
    return values
