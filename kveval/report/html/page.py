"""Renders a template to one HTML file that requests nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kveval import __version__
from kveval.report import endpoints, labels, sections
from kveval.report.text import exact, shortened, visible
from kveval.resources import templates_directory

EXCERPT_CHARACTERS_SHOWN = 600
_REPORT = Path(__file__).parents[1]


def render(template: str, **values: Any) -> str:
    """Returns the page with its style, its script, and a policy that allows only these two."""
    css, script = _asset("report.css"), _asset("report.js")
    return (
        _environment()
        .get_template(template)
        .render(
            css=Markup(css),  # noqa: S704  our own file
            script=Markup(script),  # noqa: S704  our own file
            policy_header=_content_security_policy(css, script),
            kveval_version=__version__,
            **values,
        )
    )


def _asset(name: str) -> str:
    return (templates_directory() / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([templates_directory(), *sections.__path__, _REPORT]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    filters: dict[str, Callable[..., Any]] = {
        "count": lambda value: "" if value is None else f"{value:,.0f}",
        "score": labels.score_label,
        "percent": lambda value: "" if value is None else f"{value:.1%}",
        "number": lambda value: "" if value is None else f"{value:.4g}",
        "p": lambda value: "" if value is None else f"{value:.2g}",
        "probability": _probability,
        "points": lambda value: "" if value is None else f"{100 * value:+.1f}",
        "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
        "yaml": lambda value: yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110),
        "length_label": labels.length_label,
        "difference": labels.difference_label,
        "plain_reason": labels.plain_reason,
        "attributions": endpoints.attribution_labels,
        "parts": endpoints.parts_labels,
        "name_of": endpoints.name_of,
        "hundredfold": lambda value: "" if value is None else f"{100 * value:.2f}",
        "kind": endpoints.kind_label,
        "shown_kind": endpoints.shown_label,
        "answered": labels.answered_label,
        "flips": labels.flips_label,
        "storage": labels.storage_label,
        "excerpt": lambda text: shortened(text, EXCERPT_CHARACTERS_SHOWN),
        "moment": lambda text: text[:16].replace("T", " ") + (" UTC" if text.endswith(("Z", "+00:00")) else ""),
        "exact": exact,
        "diffed": _diffed,
    }
    environment.filters.update(filters)
    return environment


def _finalize(value: Any) -> Any:
    """Makes every value that a template prints safe to look at. Escaping follows."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _diffed(pieces: tuple[tuple[str, bool], ...], tag: str) -> Markup:
    """Returns the pieces of a text; those that only this text has stand inside `tag`."""
    marked = Markup(f"<{tag}>{{}}</{tag}>")  # noqa: S704  tag is ours
    return Markup("").join(marked.format(exact(text)) if changed else exact(text) for text, changed in pieces)


def _probability(value: float | None) -> str:
    if value is None:
        return "not listed"
    return f"{value:.1%}" if value >= 0.001 else f"{value:.1e}"


def _content_security_policy(css: str, script: str) -> str:
    style, code = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (css, script))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{code}'; "
        "base-uri 'none'; form-action 'none'"
    )
