from __future__ import annotations

import pytest

from kveval.errors import ConfigError
from kveval.resources import tasks_directory
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.families.needle.builder import niah_single
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Cell
from kveval.tasks.task_files import list_tasks

NAMES = [info.name for info in list_tasks()]


def lm_eval_task(name, **metadata):
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(tasks_directory()), include_defaults=False, metadata=metadata)
    return manager.load([f"kveval_{name}"])["tasks"][f"kveval_{name}"]


def lm_eval_prompt(task, doc):
    return task.fewshot_context(doc, num_fewshot=0, gen_prefix=task.doc_to_prefix(doc))


@pytest.mark.parametrize("name", NAMES)
def test_plain_lm_eval_asks_and_scores_the_same(name):
    lm_eval = lm_eval_task(name, context_length=2048, samples=6, questions_per_haystack=3, seed=5)
    task = load_tasks([name])[name]
    prompt_format = PromptFormat.stand_in()
    samples = build_samples(task, Cell(name, 2048, 6, 3, 5, "generated"), prompt_format)
    docs = list(lm_eval.test_docs())
    assert len(docs) == 6
    for doc, sample in zip(docs, samples, strict=True):
        assert lm_eval_prompt(lm_eval, doc) == prompt_format.decode(sample.prompt.token_ids())
        for text in (" ".join(sample.doc["answers"]), "not stated", "1111111"):
            assert lm_eval.process_results(doc, [text]) == task.score(sample.doc, text)
        assert sample.doc["answers"][0] in lm_eval.doc_to_target(doc)


def test_a_models_tokenizer_sizes_the_prompts(smollm2):
    lm_eval = lm_eval_task("niah_single", pretrained=str(smollm2), context_lengths=[512, 1024], samples=2)
    prompt_format = PromptFormat.load(smollm2, "completion")
    task = load_tasks(["niah_single"])["niah_single"]
    docs = list(lm_eval.test_docs())
    assert [doc["context_length"] for doc in docs] == [512, 512, 1024, 1024]
    for doc, length in zip(docs[::2], (512, 1024), strict=True):
        sample = build_samples(task, Cell("niah_single", length, 2, 10, 0, "generated"), prompt_format)[0]
        assert lm_eval_prompt(lm_eval, doc) == prompt_format.decode(sample.prompt.token_ids())


def test_a_dataset_needs_its_yaml_file():
    with pytest.raises(ConfigError, match="use the path of the task's YAML file"):
        niah_single(version=1, config_source="inline")
