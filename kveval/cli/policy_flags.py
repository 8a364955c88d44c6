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
    kind = next((kind for kind in (float, int, bool) if _is_of(field.annotation, kind)), str)
    annotation = Annotated[kind | None, typer.Option(help=field.description)]  # type: ignore[valid-type]
    return inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def _is_of(annotation: Any, kind: type) -> bool:
    """Tells whether an annotation is `kind`, or `kind` or None."""
    return annotation is kind or (type(None) in get_args(annotation) and kind in _plain(get_args(annotation)))


def _plain(annotations: tuple[Any, ...]) -> list[Any]:
    return [get_args(one)[0] if get_origin(one) is Annotated else one for one in annotations]


def _value(key: str, given: Any) -> Any:
    if get_origin(Policy.model_fields[key].annotation) is not dict:
        return given
    _, kind = get_args(Policy.model_fields[key].annotation)
    is_number = get_origin(kind) is not Literal
    flag = f"--{key.replace('_', '-')}"
    values: dict[str, Any] = {}
    for part in given.split(","):
        name, is_pair, value = part.partition("=")
        try:
            values[name.strip()] = float(value) if is_number else value.strip()
        except ValueError:
            is_pair = ""
        if not is_pair:
            form, example = ("NAME=NUMBER", "needle=0.01,code=0.05") if is_number else ("NAME=TIER", "code=advisory")
            raise UsageError(f"{flag}: {part!r} is not {form}; use for example {example}")
    return values
