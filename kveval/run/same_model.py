"""Tells from their facts whether a candidate's server serves the baseline's model: only the cache may differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kveval.config.engine import by_flag
from kveval.run.facts import Facts, Finding

# A model of the Hugging Face hub in its cache: .../models--ORGANIZATION--NAME/snapshots/REVISION.
_SNAPSHOT = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/([^/]+)/?$")
# What /v1/models says of the weights, beside their root. The last two come from llama.cpp's server.
_WEIGHTS = ("parent", "n_params", "size")
_INSTEAD = (
    "two models are compared, not two caches; use: servers of one model, or the variant's key `model` where its "
    "checkpoint is meant to be another"
)


def model_findings(
    facts: Facts,
    baseline: Facts,
    *,
    is_same_model: bool,
    engine_args: Mapping[str, Any],
    declared_max_model_len: int | None,
) -> Iterator[Finding]:
    """Yields an error for each fact of the model that is not the baseline's and that no key of the configuration says.

    Args:
        is_same_model: the configuration gives both variants the same checkpoint.
        engine_args, declared_max_model_len: of the candidate, as configured: they may state another window.
    """
    if is_same_model:
        yield from _weights_findings(_served(facts), _served(baseline))
        yield from _answer_findings(facts, baseline)
        yield from _tokenizer_findings(facts, baseline)
    ours, theirs = facts.max_model_len, baseline.max_model_len
    states_window = (
        "max-model-len" in by_flag(engine_args)
        or declared_max_model_len is not None
        or any(one.is_declared("max_model_len") for one in (facts, baseline))
    )
    if None not in (ours, theirs) and ours != theirs and is_same_model and not states_window:
        yield Finding.error(
            "other_max_model_len",
            f"max_model_len {ours}, the baseline's is {theirs}, and no key of the configuration says so; use: servers "
            "with one window, or say it in the variant: endpoint.declared.max_model_len, engine_args.max-model-len",
        )


def _served(facts: Facts) -> Mapping[str, Any]:
    try:
        served = json.loads(facts.served_model or "{}")
    except ValueError:
        return {}
    return served if isinstance(served, Mapping) else {}


def _weights_findings(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Finding]:
    roots = ours.get("root"), theirs.get("root")
    if None not in roots and not is_same_root(str(roots[0]), str(roots[1])):
        yield Finding.error("other_model", f"serves {roots[0]}, the baseline's server serves {roots[1]}: {_INSTEAD}")
    for key in _WEIGHTS:
        pair = ours.get(key), theirs.get(key)
        if None not in pair and pair[0] != pair[1]:
            yield Finding.error(
                "other_model", f"the model's {key} is {pair[0]}, the baseline's is {pair[1]}: {_INSTEAD}"
            )


def is_same_root(ours: str, theirs: str) -> bool:
    """Whether two names of a checkpoint can mean the same one: a hub's model may be named by its place in the cache."""
    (our_name, our_revision), (their_name, their_revision) = _named(ours), _named(theirs)
    return our_name == their_name and (None in (our_revision, their_revision) or our_revision == their_revision)


def _named(root: str) -> tuple[str, str | None]:
    found = _SNAPSHOT.search(root)
    return (f"{found[1]}/{found[2]}", found[3]) if found else (root.rstrip("/"), None)


def _answer_findings(facts: Facts, baseline: Facts) -> Iterator[Finding]:
    ours, theirs = facts.answers_as, baseline.answers_as
    # Each server may answer by the name that it is asked by.
    are_own_names = _answers_by_its_name(facts) and _answers_by_its_name(baseline)
    if None not in (ours, theirs) and ours != theirs and not are_own_names:
        message = f"its answers come from {ours!r}, the baseline's from {theirs!r}: {_INSTEAD}"
        yield Finding.error("other_answering_model", message)


def _answers_by_its_name(facts: Facts) -> bool:
    served = _served(facts)
    return facts.answers_as in (served.get("id"), served.get("root"))


def _tokenizer_findings(facts: Facts, baseline: Facts) -> Iterator[Finding]:
    forms = {facts.prompt_form, baseline.prompt_form}
    if forms == {"text", "text_without_bos"}:
        yield Finding.error(
            "other_tokenizer",
            "of this server and the baseline's, only one puts a beginning-of-sequence token in front of every text: "
            "their tokenizers differ; use: servers with one tokenizer configuration",
        )
