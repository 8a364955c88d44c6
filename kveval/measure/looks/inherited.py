"""What one variant takes over from others where context lengths stop early, or where server time runs out."""

from __future__ import annotations

from kveval.engines.variants import ResolvedVariant
from kveval.measure.looks.asked import earlier_stops
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.plan import Plan
from kveval.run.manifest import Manifest


def inherit_stops(manifest: ManifestFile, variant: ResolvedVariant) -> None:
    """Stops `variant` where nothing could be compared: beyond the baseline, and a control beyond its candidate."""
    if variant.role == "baseline":
        return
    others = [manifest.baseline.stopped]
    if variant.role == "control" and variant.of is not None:
        others.append(manifest.manifest.variants[variant.of].stopped)
    stopped = earlier_stops(*others, manifest.of(variant).stopped)
    if stopped != manifest.of(variant).stopped:
        manifest.update(variant, stopped=stopped)


def with_looks(manifest: Manifest, plan: Plan, *, is_judged: bool) -> Manifest:
    """Returns the manifest with which a sweep begins, with the looks of its plan.

    A run that goes on goes on where it stopped for its budget, and after a growth also where more can decide again.
    Lengths that are decided stay as they are.

    Args:
        is_judged: whether candidates are judged while they are asked.
    """
    looks = list(plan.looks.looks) if is_judged else manifest.planned_looks
    lifted = ("budget", "futile") if len(looks) > len(manifest.planned_looks) else ("budget",)
    variants = {}
    for name, one in manifest.variants.items():
        kept = {length: stop for length, stop in one.stopped.items() if stop.cause not in lifted}
        variants[name] = one.model_copy(update={"stopped": kept})
    return manifest.model_copy(update={"planned_looks": looks, "variants": variants})


def allowance_hours(plan: Plan, manifest: ManifestFile, variant: ResolvedVariant) -> float | None:
    """Returns the server time for `variant`: an equal share of what is left. None without a limit."""
    hours = plan.config.budget.gpu_hours
    if hours is None:
        return None
    runs = manifest.manifest.variants
    used = sum(runs[one.name].server_seconds for one in plan.variants if one.name != variant.name)
    names = [one.name for one in plan.variants]
    left = [name for name in names[names.index(variant.name) :] if runs[name].status != "complete"]
    return (hours - used / 3600) / max(1, len(left))
