"""What the shell offers for an argument. Reads names only, and never fails: a wrong guess is no error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import typer

_MOST_SAMPLES = 200


def complete_config(incomplete: str) -> list[str]:
    """Offers presets and the YAML files here."""
    from kveval.resources import presets

    return _starting([*presets(), *(path.name for path in sorted(Path().glob("*.y*ml")))], incomplete)


def complete_run(incomplete: str) -> list[str]:
    """Offers the run directories of the folder that is typed so far, or of ``runs``."""
    folder = Path(incomplete.rpartition("/")[0] or ("/" if incomplete.startswith("/") else "runs"))
    try:
        return _starting((str(path) for path in sorted(folder.iterdir()) if _is_run(path)), incomplete)
    except OSError:
        return []


def complete_sample(context: typer.Context, incomplete: str) -> list[str]:
    """Offers the first samples of the run that is typed before."""
    try:
        with (Path(str(context.params.get("run"))) / "samples.jsonl").open(encoding="utf-8") as lines:
            found = [str(json.loads(line)["sample_id"]) for line in islice(lines, _MOST_SAMPLES)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return _starting(found, incomplete)


def complete_tasks(incomplete: str) -> list[str]:
    """Offers tasks behind those that are typed already."""
    from kveval.tasks.task_files import list_tasks

    return _in_list((task.name for task in list_tasks()), incomplete)


def complete_variants(incomplete: str) -> list[str]:
    """Offers cache settings behind those that are typed already."""
    from kveval.config.variant import SHORTHANDS

    return _in_list(SHORTHANDS, incomplete)


def _is_run(path: Path) -> bool:
    try:
        return (path / "manifest.json").is_file()
    except OSError:
        return False


def _in_list(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [before + comma + name for name in names if name.startswith(last) and name not in given]


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
