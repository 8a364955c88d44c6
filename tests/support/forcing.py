"""A scripted server that is forced, as kveval's processor forces a real engine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from kveval.engines.plugin.forcing import ForcedOutput, ForcedResult


def read_from_logits(forced: ForcedOutput, logits: np.ndarray, folder: Path) -> ForcedResult:
    """What the processor leaves of logits [tokens, vocabulary]."""
    logprobs = log_softmax(logits / forced.temperature, axis=1)
    rows = np.arange(len(logprobs))[:, None]
    ids = np.argsort(-logprobs, axis=1, kind="stable")[:, : forced.top_k]
    if forced.read_ids is not None:
        read = ForcedResult.read(folder, forced.read_ids).top_ids
        assert read is not None
        ids = read[: len(logprobs)]
    kept = logprobs[rows, ids].astype(np.float32)
    rest = logprobs.copy()
    rest[rows, ids] = -np.inf
    with np.errstate(divide="ignore"):
        tail = np.log(np.exp(rest).sum(axis=1)).astype(np.float32)
    # Ids of the stand-in tokenizer are larger than any vocabulary.
    own = logprobs[rows[:, 0], np.array(forced.token_ids) % logits.shape[1]].astype(np.float32)
    argmax = logprobs.argmax(axis=1).astype(np.int32)
    if forced.read_ids is not None:
        return ForcedResult(own, argmax, read_logprobs=kept, tail_logprobs=tail)
    return ForcedResult(own, argmax, ids.astype(np.int32), kept, tail_logprobs=tail)


def forcing(
    folder: Path,
    logprob: Callable[[int], float] = lambda _: -0.5,
    *,
    reported: Callable[[int], float] | None = None,
    writes: Callable[[list[int]], list[int]] = lambda ids: ids,
    leaves_result: bool = True,
    logits: Callable[[int], np.ndarray] | None = None,
) -> Callable[[dict[str, Any]], str]:
    """Returns `ScriptedServer.force`.

    Args:
        logprob: of a target, by its token id, as the processor notes it; `reported`: as the answer says.
        writes: the output ids, from the targets.
        logits: float [vocabulary], of one position, from the target. Gives the top ids and those that are to be read.
    """

    def force(body: dict[str, Any]) -> str:
        forced = ForcedOutput.from_xargs(body["vllm_xargs"])
        assert forced is not None
        targets = list(forced.token_ids)
        if leaves_result and logits is not None:
            read_from_logits(forced, np.stack([logits(token) for token in targets]), folder).write(folder, forced.name)
        elif leaves_result:
            logprobs = np.array([logprob(token) for token in targets], np.float32)
            ForcedResult(logprobs, np.array(targets, np.int32)).write(folder, forced.name)
        written = writes(targets)
        said = [(reported or logprob)(token) for token in targets]
        return _answer(body, written, [{token: value} for token, value in zip(written, said, strict=True)])

    return force


def reading(
    logprob: Callable[[int], float] = lambda _: -0.5,
    *,
    reported: Callable[[int], float] | None = None,
    obeys: bool = True,
    reads: bool = True,
) -> Callable[[dict[str, Any]], str]:
    """Returns `ScriptedServer.read`: a vLLM server without kveval's plugin.

    Args:
        logprob: of a token that is read, by its id; `reported`: of a token that the server wrote.
        obeys: writes the tokens it may write, and no others; `reads`: says how probable the named token is.
    """

    def read(body: dict[str, Any]) -> str:
        [named] = body["logprob_token_ids"]
        only = body.get("allowed_token_ids") if obeys else None
        written = (only or [11, 12, 13, 14]) * 8
        said = {named: logprob(named)} if reads else {}
        count = body["max_tokens"]
        return _answer(
            body, written[:count], [{token: (reported or logprob)(token), **said} for token in written[:count]]
        )

    return read


def _answer(body: dict[str, Any], written: list[int], top: list[dict[int, float]]) -> str:
    choice = {
        "text": "forced",
        "finish_reason": "length",
        "logprobs": {
            "tokens": [f"token_id:{token}" for token in written],
            # The engine writes null for NaN.
            "top_logprobs": [
                {f"token_id:{token}": None if np.isnan(value) else value for token, value in one.items()} for one in top
            ],
        },
    }
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(written)}
    return "".join(
        f"data: {event}\n\n"
        for event in (json.dumps({"choices": [choice]}), json.dumps({"choices": [], "usage": usage}), "[DONE]")
    )
