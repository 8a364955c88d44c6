"""A scripted server that is forced, as kveval's processor forces a real engine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kveval.engines.plugin.forcing import ForcedOutput, ForcedResult


def forcing(
    folder: Path,
    logprob: Callable[[int], float] = lambda _: -0.5,
    *,
    reported: Callable[[int], float] | None = None,
    writes: Callable[[list[int]], list[int]] = lambda ids: ids,
    leaves_result: bool = True,
) -> Callable[[dict[str, Any]], str]:
    """Returns `ScriptedServer.force`.

    Args:
        logprob: of a target, by its token id, as the processor notes it; `reported`: as the answer says.
        writes: the output ids, from the targets.
    """

    def force(body: dict[str, Any]) -> str:
        forced = ForcedOutput.from_xargs(body["vllm_xargs"])
        assert forced is not None
        targets = list(forced.token_ids)
        if leaves_result:
            logprobs = np.array([logprob(token) for token in targets], np.float32)
            ForcedResult(logprobs, np.array(targets, np.int32)).write(folder, forced.name)
        names = [f"token_id:{token}" for token in writes(targets)]
        said = [(reported or logprob)(token) for token in targets]
        choice = {
            "text": "forced",
            "finish_reason": "length",
            "logprobs": {
                "tokens": names,
                "top_logprobs": [{name: value} for name, value in zip(names, said, strict=True)],
            },
        }
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(names)}
        return "".join(
            f"data: {event}\n\n"
            for event in (json.dumps({"choices": [choice]}), json.dumps({"choices": [], "usage": usage}), "[DONE]")
        )

    return force
