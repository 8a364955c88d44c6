"""Keeps a run as it was if samples are to be added to it and none of them is answered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kveval.measure.plan.growth import growth_notes
from kveval.measure.plan.manifest import is_grown
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest
from kveval.run.storage import write_atomically


@contextlib.contextmanager
def growing(run: RunDirectory, manifest: Manifest, plan: Plan, reporter: Reporter) -> Iterator[None]:
    """Says what is added to a run. Undoes it if the sweep ends with an error before it answers a new sample.

    Otherwise a finished run would be incomplete because its engine is gone.

    Args:
        manifest: that of the sweep, not yet written.
    """
    if not run.exists() or not is_grown(run.read_manifest(), manifest):
        yield
        return
    for note in growth_notes(plan.growth[-1], plan.tasks):
        reporter.note(note)
    kept = {path: path.read_text(encoding="utf-8") for path in (run.samples_path, run.manifest_path)}
    before = _answered(run, manifest)
    try:
        yield
    except BaseException:
        if _answered(run, manifest) == before:
            for path, text in kept.items():
                write_atomically(path, text)
        raise


def _answered(run: RunDirectory, manifest: Manifest) -> int:
    return sum(1 for name in manifest.variants for _ in run.records(name))
