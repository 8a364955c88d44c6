"""The jinja2 environment that renders the templates of task files. They may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from jinja2 import Environment, StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

_MOST_ENTRIES = 1_000_000
_LARGEST_NUMBER = 10**18
_LARGEST_POWER = 64
_PADDING = frozenset(("center", "expandtabs", "format", "format_map", "ljust", "rjust", "zfill"))


class TemplateEnvironment(SandboxedEnvironment):
    """Renders plain text, without access to Python's internals and without results that fill the memory.

    `SandboxedEnvironment` bounds ``range``. This one also bounds ``*`` and ``**``, and has nothing that formats or pads
    a text: no ``%``, ``format`` or ``ljust``. A width of a billion is a gigabyte.

    Raises (while it renders):
        jinja2.sandbox.SecurityError: a template does what it may not.
        jinja2.UndefinedError: a template names what the document lacks.
    """

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self, filters: Mapping[str, Any] | None = None) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
        self.filters.update(filters or {})
        for name in _PADDING & self.filters.keys():
            del self.filters[name]

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Returns what a binary operator gives, if that is not too large."""
        if operator == "%":
            is_large = isinstance(left, str | bytes)
        elif operator == "**":
            is_large = _number(left) > _LARGEST_NUMBER or _number(right) > _LARGEST_POWER
        else:
            sizes = [len(one) for one in (left, right) if isinstance(one, Sized)]
            numbers = _number(left), _number(right)
            is_large = max(numbers) > _LARGEST_NUMBER or (bool(sizes) and sizes[0] * max(numbers) > _MOST_ENTRIES)
        if is_large:
            raise SecurityError(f"a template may not compute {operator} of such values; it could fill the memory")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> None:
        """Leaves the methods that format a text to `is_safe_attribute`."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Returns whether a template may read an attribute."""
        return not (isinstance(obj, str | bytes) and attr in _PADDING) and super().is_safe_attribute(obj, attr, value)


def _number(value: Any) -> float:
    return abs(value) if isinstance(value, int | float) else 0


def guard_lm_eval() -> None:
    """Makes lm-eval render templates in this environment, with the filters of its own."""
    from lm_eval import utils

    if not isinstance(utils.env, TemplateEnvironment):
        environment: Environment = utils.env
        utils.env = TemplateEnvironment(environment.filters)
