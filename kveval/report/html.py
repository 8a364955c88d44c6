"""The report: one self-contained HTML file that requests nothing and runs no script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kveval import __version__
from kveval.judge.diff import judge_run
from kveval.judge.rundata import load_run
from kveval.judge.verdicts import Policy
from kveval.report import view
from kveval.report.charts import length_label
from kveval.report.table import attribution_label, difference_label
from kveval.report.text import shortened, visible
from kveval.resources import templates_directory
from kveval.storage import write_atomically

OUTPUT_CHARACTERS_SHOWN = 4_000
EXCERPT_CHARACTERS_SHOWN = 600


def build_report(run_dir: Path, out: Path | None = None, policy: Policy | None = None) -> Path:
    """Writes the report of a run, finished or not; ``RUN/report.html`` unless `out` says otherwise.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
        StorageError: the report cannot be written.
    """
    run = load_run(run_dir)
    judgement = judge_run(run, policy)
    scores = view.scores_table(run, judgement.policy.confidence)
    environment = _environment()
    css = (templates_directory() / "report.css").read_text(encoding="utf-8")
    page = environment.get_template("report.html.j2").render(
        css=Markup(css),  # noqa: S704  our own file
        policy_header=_content_security_policy(css),
        kveval_version=__version__,
        manifest=run.manifest,
        policy=judgement.policy,
        answer=view.answer(run, judgement),
        scores=scores,
        charts=view.charts(run, scores),
        outcomes=view.outcomes_table(run),
        drift=view.drift_table(run),
        flips=view.flips_section(run),
        facts=view.facts_table(run),
        variants=view.baseline_first(run),
        cost=view.cost_table(run),
    )
    path = run_dir / "report.html" if out is None else out
    write_atomically(path, page)
    return path


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_directory()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    filters: dict[str, Callable[[Any], Any]] = {
        "count": lambda value: "" if value is None else f"{value:,.0f}",
        "score": lambda value: "" if value is None else f"{value:.3f}",
        "percent": lambda value: "" if value is None else f"{value:.1%}",
        "number": lambda value: "" if value is None else f"{value:.4g}",
        "p": lambda value: "" if value is None else f"{value:.2g}",
        "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
        "tokens": lambda value: "overall" if value is None else length_label(value),
        "difference": difference_label,
        "attribution": attribution_label,
        "output": lambda text: shortened(text, OUTPUT_CHARACTERS_SHOWN),
        "excerpt": lambda text: shortened(text, EXCERPT_CHARACTERS_SHOWN),
    }
    environment.filters.update(filters)
    return environment


def _finalize(value: Any) -> Any:
    """Every value a template prints passes here, before it is escaped."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _content_security_policy(css: str) -> str:
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
