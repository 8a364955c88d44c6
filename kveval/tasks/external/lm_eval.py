"""Runs lm-eval's own generation tasks with its prompts and scorers, and kveval's pairing, records and judge."""

from __future__ import annotations

import difflib
import importlib.metadata
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.config.task import LM_EVAL
from kveval.errors import ConfigError, DataError, KvevalError
from kveval.tasks.assembly.prompt import PromptStyle
from kveval.tasks.external.fixed_prompts import FixedPrompt, FixedPromptTask
from kveval.tasks.external.hub import hub_bounded, needs_hub
from kveval.tasks.loader import quiet, stop_texts
from kveval.tasks.references.form import ReferenceForm
from kveval.tasks.task import Task
from kveval.tasks.task_files import read_task_file
from kveval.tasks.templates import guard_lm_eval
from kveval.tasks.user_code import one_line, user_code

FAMILY = "lm_eval"
# What lm-eval's own models generate where a task does not say.
_DEFAULT_OUTPUT_TOKENS = 256
_BUDGET_KEYS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
# lm-eval's default, so that few-shot examples are those of a plain lm-eval run.
_FEWSHOT_SEED = 1234


@dataclass(frozen=True, slots=True)
class Metric:
    """The metric that decides, under one of the task's filters."""

    name: str
    filter: str


def load_lm_eval_task(name: str, samples: int | None = None, at_most: int | None = None) -> FixedPromptTask:
    """Loads a task by lm-eval's name for it, or by the path of its YAML file.

    Args:
        name: ``lm_eval:gsm8k`` or ``lm_eval:path/to/task.yaml``. For a name, lm-eval takes seconds to index its tasks.
        samples: how many documents to ask, from the first; the task must have as many.
        at_most: the same, but the task may have fewer.

    Raises:
        ConfigError: there is no such task, or kveval cannot ask it.
        DataError: its data has to be downloaded, and the hub cannot be reached.
    """
    wanted = name.removeprefix(LM_EVAL)
    with quiet(), hub_bounded() as hub:
        try:
            found = _find(wanted)
        except KvevalError:
            raise
        except StopIteration as error:
            raise ConfigError(f"tasks: {name} has no documents; use: a task whose data has rows") from error
        except Exception as error:  # lm-eval, datasets and a task's own code raise whatever they like
            if needs_hub(error):
                raise DataError(
                    f"{name}: its data has to be downloaded, and {hub} cannot be reached ({one_line(error)}); "
                    "run it once where it can, or use a task whose data is on this machine"
                ) from error
            raise ConfigError(f"tasks: {name} cannot be loaded: {one_line(error)}") from error
        refusal = _refusal(found)
        if refusal:
            raise ConfigError(f"tasks: {name} {refusal}")
        documents = [dict(document) for document in found.eval_docs]
        if samples is not None and samples > len(documents):
            raise ConfigError(f"tasks: samples={samples} of {name}; use: up to {len(documents)}, the documents it has")
        documents = documents[: samples or at_most]
        metric = _decision(found, documents[0], name)
    loaded = _LmEvalTask(found, documents, metric, LM_EVAL + str(found.config.task))
    return FixedPromptTask(loaded.task(), loaded.prompts)


def _find(wanted: str) -> Any:
    import datasets
    from lm_eval.tasks import TaskManager

    datasets.disable_progress_bars()
    guard_lm_eval()
    if wanted.endswith((".yaml", ".yml")):
        path = Path(wanted).expanduser()
        if not path.is_file():
            raise ConfigError(f"tasks: {LM_EVAL}{wanted}: no such file; use: a task's YAML file, or its name")
        if "group" in (declared := read_task_file(path)) or isinstance(declared.get("task"), list):
            raise ConfigError(f"tasks: {LM_EVAL}{wanted} is a group of tasks; use: one of the tasks in it")
        manager, spec = TaskManager(include_path=str(path.parent), include_defaults=False), str(path)
    else:
        manager, spec = TaskManager(), wanted
        if wanted not in manager.all_tasks:
            close = difflib.get_close_matches(wanted, manager.all_subtasks, n=3, cutoff=0.5)
            near = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
            raise ConfigError(
                f"tasks: lm-eval has no task {wanted!r}; {near}use: what `lm_eval ls tasks` lists, or the path of "
                "a task's YAML file"
            )
        if wanted not in manager.all_subtasks:
            raise ConfigError(f"tasks: {LM_EVAL}{wanted} is a group of tasks; use: one of the tasks in it")
    loaded = manager.load([spec])["tasks"]
    if len(loaded) != 1:
        raise ConfigError(f"tasks: {LM_EVAL}{wanted} has {len(loaded)} tasks; use: a file with one")
    return next(iter(loaded.values()))


def _refusal(task: Any) -> str | None:
    """Returns why a task cannot be asked as plain questions, each of them once; None if it can."""
    if task.OUTPUT_TYPE != "generate_until":
        return f"is of output_type {task.OUTPUT_TYPE!r}; use: generate_until, where the model writes its answer"
    if getattr(task, "MULTIMODAL", False):
        return "asks about images or sound; use: text"
    if getattr(task, "UNSAFE_CODE", False):
        return "runs what the model writes outside of any sandbox; use: tasks without unsafe_code, or code_execute"
    if (task.config.repeats or 1) > 1:
        return f"asks every question {task.config.repeats} times; use: repeats: 1"
    unknown = [name for name, function in task._metric_fn_list.items() if function is None]
    if unknown and task.config.process_results is None:
        return f"has the metric {unknown[0]!r}, which lm-eval does not know; use: a metric it knows, or process_results"
    return None


def _decision(task: Any, document: Mapping[str, Any], name: str) -> Metric:
    """Returns the first metric of the first filter that is a number from 0 to 1 for one answer, higher is better."""
    with user_code(f"tasks: the scorer of {name}"):
        target = task.doc_to_target(document)
        results = _results(task, document, target if isinstance(target, str) else "")
    first = next(iter(results))
    better = task.higher_is_better()
    for metric in dict.fromkeys([*task.aggregation(), *results[first]]):
        value = _number(results[first].get(metric))
        if value is not None and 0 <= value <= 1 and better.get(metric) is not False:
            return Metric(metric, first)
    raise ConfigError(
        f"tasks: {name} has the metrics {', '.join(map(str, results[first]))}, none of which is a number from 0 to 1 "
        "for a single answer; use: tasks with such a metric, for example as exact_match"
    )


def _results(task: Any, document: Mapping[str, Any], text: str) -> dict[str, Mapping[str, Any]]:
    """Returns the metrics of one output by filter, as lm-eval's evaluator computes them."""
    from lm_eval.api.instance import Instance

    instance = Instance(request_type="generate_until", doc=dict(document), arguments=("", {}), idx=0, resps=[text])
    results = {}
    for ensemble in task._filters:
        ensemble.apply([instance])
        metrics = task.process_results(dict(document), [instance.filtered_resps[ensemble.name]])
        if not isinstance(metrics, Mapping):
            raise TypeError(f"process_results returns {metrics!r}; use: a dict of metrics")
        results[ensemble.name] = metrics
    return results


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


class _LmEvalTask:
    """Asks some documents of one of lm-eval's tasks, and scores the outputs."""

    def __init__(self, task: Any, documents: Sequence[Mapping[str, Any]], metric: Metric, name: str) -> None:
        self._task = task
        self._documents = documents
        self._metric = metric
        self._name = name
        generation = task.config.generation_kwargs or {}
        self._stop = tuple(text for text in stop_texts(generation) if text)
        budgets = (generation[key] for key in _BUDGET_KEYS if generation.get(key))
        self._budget = int(next(budgets, _DEFAULT_OUTPUT_TOKENS))

    def task(self) -> Task:
        return Task(
            name=self._name,
            family=FAMILY,
            version=str(self._task.VERSION),
            description=f"lm-eval's {self._task.config.task}, {self._metric.name} ({self._metric.filter}) decides",
            render=lambda doc: str(doc["question"]),
            score=self.score,
            builder=None,
            max_output_tokens=self._budget,
            stop=self._stop,
            metadata={
                "lm_eval": importlib.metadata.version("lm-eval"),
                "metric": self._metric.name,
                "filter": self._metric.filter,
            },
            reference=ReferenceForm(none="a task of lm-eval does not say how a model words its answer"),
        )

    def prompts(self, style: PromptStyle) -> list[FixedPrompt]:
        """Returns what ``lm_eval`` would send, with ``--apply_chat_template`` where the style is chat."""
        with user_code(f"tasks: the prompt of {self._name}"), quiet():
            self._task.set_fewshot_seed(_FEWSHOT_SEED)
            return list(self._prompts(style))

    def _prompts(self, style: PromptStyle) -> Iterator[FixedPrompt]:
        for number, document in enumerate(self._documents):
            content = self._task.fewshot_context(
                document,
                num_fewshot=self._task.config.num_fewshot or 0,
                apply_chat_template=style == "chat",
                chat_template=lambda messages, **_: messages,
                gen_prefix=self._task.doc_to_prefix(document),
            )
            yield FixedPrompt(
                where=f"{self._name} document {number}",
                content=content,
                answers=tuple(_targets(self._task, document)),
                max_output_tokens=self._budget,
                stop=self._stop,
                doc={"document": number},
                address=str(number),
            )

    def score(self, doc: Mapping[str, Any], text: str) -> dict[str, float]:
        """Returns lm-eval's metrics of an output, and the one that decides as ``score``."""
        with user_code(f"the scorer of {self._name}"), quiet():
            results = _results(self._task, self._documents[doc["document"]], text)
        numbers = {
            f"{metric},{name}": number
            for name, metrics in results.items()
            for metric, value in metrics.items()
            if (number := _number(value)) is not None
        }
        decides = numbers.get(f"{self._metric.name},{self._metric.filter}")
        if decides is None or not 0 <= decides <= 1:
            raise ConfigError(f"the scorer of {self._name} returns {results}; use: a number from 0 to 1")
        return {"score": decides, **numbers}


def _targets(task: Any, document: Mapping[str, Any]) -> Iterator[str]:
    target = task.doc_to_target(document)
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        target = task.doc_to_choice(document)[target]
    for one in target if isinstance(target, list) else [target]:
        yield str(one)
