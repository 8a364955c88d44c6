from __future__ import annotations

import pytest

from kveval.errors import ConfigError
from kveval.tasks.loader import load_tasks
from kveval.tasks.references.form import ReferenceForm
from kveval.tasks.task_files import list_tasks

TEXT = [{"answer": "{{answers[0]}}"}]


def test_a_task_may_say_nothing():
    assert ReferenceForm.from_metadata({"version": 1}) is None


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ({"unit": "probability"}, "unit, text: not both given"),
        ({"text": TEXT}, "unit, text: not both given"),
        ({"unit": "product", "text": TEXT}, "unit: 'product' is not allowed; use: 'probability', 'token_accuracy' or"),
        ({"unit": "probability", "text": [{"lead": "The answer is"}]}, "text: has leads only"),
        ({"unit": "probability", "text": []}, "use: a list with at least one entry"),
        ({"unit": "probability", "text": [{"lead": "x", "answer": "y"}]}, "use one key"),
        ({"unit": "probability", "text": [{"format": "x"}]}, "use one key other than 'format'"),
        ({"unit": "probability", "text": [{"answer": "{{x"}]}, "is not a jinja2 template"),
        ({"unit": "entries", "text": TEXT}, "the piece entries and unit entries go together"),
        ({"unit": "probability", "text": [{"entries": "{{entry}}"}]}, "the piece entries and unit entries go together"),
        ({"unit": "probability", "text": TEXT, "any_order": True}, "any_order: true without entries or json"),
        ({"none": "no one right text", "unit": "probability"}, "none: with other keys beside it"),
        ({"unit": "probability", "texts": TEXT}, "unknown key 'texts'; did you mean 'text'"),
        ("the answer", "metadata.reference"),
        (None, "metadata.reference"),
    ],
)
def test_a_wrong_form_is_named_with_its_key_and_what_to_use(reference, says):
    with pytest.raises(ConfigError) as refused:
        ReferenceForm.from_metadata({"reference": reference})
    assert says in str(refused.value)
    assert "metadata.reference" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_shipped_task_has_a_reference_or_a_reason():
    tasks = load_tasks([info.name for info in list_tasks()])
    assert [name for name, task in tasks.items() if task.reference is None] == []


def test_a_reference_is_no_part_of_what_makes_samples():
    """A run made before a task had a reference can be resumed: its inputs are hashes of the metadata."""
    task = load_tasks(["niah_multikey"])["niah_multikey"]
    assert "reference" not in task.metadata
