"""Chooses the number of questions per haystack of every cell for which the configuration says ``auto``.

A number that the run or the run in ``baseline_from`` has is kept. The number of an earlier run beside is kept as long
as it is nearly the best: samples stay the same from night to night, and their answers can be paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kveval.config.sweep import SweepConfig
from kveval.config.task import AUTO
from kveval.measure.plan.tasks import PlannedTasks
from kveval.measure.questions.balance import Clustering, balanced, most_questions, time_for_certainty
from kveval.measure.questions.capacity import most_that_fit
from kveval.measure.questions.costs import assumed_prefill
from kveval.measure.questions.earlier import EarlierRun, newest_costs, runs_of_model
from kveval.run.manifest import ChosenQuestions, Manifest
from kveval.tasks.task import Task

# Another number than that of an earlier run must save this share of the time: answers cannot be paired across it.
_WORTH_ANOTHER = 0.1

ClusteringOf = Callable[[Path], Clustering]
"""Says how alike the questions of a haystack are for the model in a folder: `kveval.api` asks the judge."""


def careful_clustering(_: Path) -> Clustering:
    """Returns the clustering of a model of which nothing is known."""
    return Clustering()


def choose_questions(
    config: SweepConfig,
    tasks: PlannedTasks,
    model: Path,
    device: str | None,
    earlier: Manifest | None,
    clustering_of: ClusteringOf,
) -> tuple[ChosenQuestions, ...]:
    """Chooses for every cell whose number is ``auto``. The same configuration beside the same runs gives the same.

    Args:
        device: the kind of device that answers.
        earlier: of the run that goes on. What was chosen for it is kept.
    """
    kept = {(one.task, one.context_length): one for one in (earlier.questions_per_haystack if earlier else ())}
    cells = [cell for cell in _cells(config, tasks) if (cell[0].name, cell[1]) not in kept]
    if not cells:
        return tuple(kept.values())
    beside = runs_of_model(None if config.out is None else config.out.parent, model, without=config.out)
    named = runs_of_model(config.baseline_from, model, without=config.out)
    chooser = _Chooser(config.seed, device, clustering_of(model), named, beside)
    return (*kept.values(), *(chooser.choose(*cell) for cell in cells))


def kept_number(config: SweepConfig, earlier: Manifest | None) -> SweepConfig:
    """Returns a configuration that says ``auto`` with the number of the run that goes on, if that run has a number.

    Runs made before ``auto`` was the default have one.
    """
    number = None if earlier is None else earlier.config.get("questions_per_haystack")
    if config.questions_per_haystack != AUTO or not isinstance(number, int):
        return config
    return config.model_copy(update={"questions_per_haystack": number})


def _cells(config: SweepConfig, tasks: PlannedTasks) -> Iterator[tuple[Task, int, int]]:
    """Yields task, context length and samples of every cell whose number is ``auto``."""
    for entry, task in tasks.generated:
        if (entry.questions_per_haystack or config.questions_per_haystack) == AUTO:
            for length in entry.context_lengths or config.context_lengths:
                yield task, length, entry.samples or config.samples


@dataclass(frozen=True, slots=True)
class _Best:
    questions: int
    prefill: float
    because: str


class _Chooser:
    def __init__(
        self,
        seed: int,
        device: str | None,
        clustering: Clustering,
        named: list[EarlierRun],
        beside: list[EarlierRun],
    ) -> None:
        self._seed, self._device, self._clustering = seed, device, clustering
        self._named, self._beside = named, beside
        self._costs, self._measured_in = newest_costs([*named, *beside])

    def choose(self, task: Task, length: int, samples: int) -> ChosenQuestions:
        questions, because = self._choose(task, length, samples)
        return ChosenQuestions(
            task=task.name, context_length=length, samples=samples, questions=questions, because=because
        )

    def _choose(self, task: Task, length: int, samples: int) -> tuple[int, str]:
        most = most_questions(samples, self._clustering)
        for one in self._named:
            number = one.questions(task.name, length)
            if number is not None and number <= most:
                return number, f"{one.run.path}, whose answers may be taken, has as many"
        best = self._best(task, length, samples)
        before = next(
            ((one, number) for one in self._beside if (number := one.questions(task.name, length)) is not None), None
        )
        if before is None:
            return best.questions, best.because
        run, number = before
        if number == best.questions:
            return best.questions, best.because
        if number <= most and self._is_nearly_as_good(number, best, samples):
            return number, (
                f"{run.run.path} has as many, and {best.questions}, the best by now, would save less than "
                f"{_WORTH_ANOTHER:.0%} of the time"
            )
        return (
            best.questions,
            f"{best.because}; {run.run.path} has {number}, so answers cannot be paired with its answers",
        )

    def _is_nearly_as_good(self, number: int, best: _Best, samples: int) -> bool:
        times = [time_for_certainty(m, best.prefill, self._clustering, samples) for m in (best.questions, number)]
        return (1 - _WORTH_ANOTHER) * times[1] <= times[0]

    def _best(self, task: Task, length: int, samples: int) -> _Best:
        prefill, source = self._prefill(length, task.max_output_tokens)
        wanted = balanced(prefill, self._clustering, samples)
        questions = most_that_fit(task, length, self._seed, samples, wanted)
        because = (
            f"a prefill costs as much as {prefill:.3g} questions ({source}) and the correlation within a haystack is "
            f"{self._clustering.correlation:.3g} ({self._clustering.source})"
        )
        if questions < wanted:
            because += f"; {wanted} would be best, but a haystack holds {questions}"
        elif wanted == most_questions(samples, self._clustering):
            because += (
                f"; more would leave fewer than the {self._clustering.fewest_contexts} contexts that a pass needs"
            )
        return _Best(questions, prefill, because)

    def _prefill(self, length: int, output_tokens: int) -> tuple[float, str]:
        measured = _at_length(self._costs, length)
        if measured is None:
            return assumed_prefill(length, output_tokens, self._device)
        return measured, f"measured in {self._measured_in}"


def _at_length(costs: Mapping[int, float], length: int) -> float | None:
    """Returns what a prefill costs at a length; between and beyond those measured, in proportion to the nearest."""
    if not costs:
        return None
    nearest = min(costs, key=lambda measured: (abs(measured - length), measured))
    return costs[nearest] * length / nearest
