"""Forces the output of a request inside vLLM, and keeps what the model would have said. Only vLLM imports it, by name.

vLLM has two interfaces of logits processors, one for each of its model runners. `ForcedDecode` answers to both. The V1
runner (the CPU's) was run. The V2 runner (the default on CUDA) was read in the source of vLLM 0.32 and not run.

Both runners compute the logprobs of an answer from the model's own logits and give the processor a copy. So forcing
changes which token is emitted and no probability.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from kveval.engines.plugin.forcing import FOLDER_VARIABLE, ForcedOutput, ForcedResult

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2LogitsProcessor
except ImportError:  # vLLM without the V2 runner
    V2LogitsProcessor = object

logger = init_logger("vllm.kveval")


class ForcedRequest:
    """One request that is being forced.

    A step may be computed twice: for each chunk of a long prompt, and after a preemption. The last time counts.

    Args:
        output_ids: what was emitted so far; vLLM appends to this list. Empty with the V2 runner, which counts itself.
    """

    def __init__(self, forced: ForcedOutput, folder: Path, output_ids: list[int]) -> None:
        self.output_ids = output_ids
        self._forced = forced
        self._folder = folder
        n, k = len(forced.token_ids), forced.top_k
        self._read_ids = None if forced.read_ids is None else ForcedResult.read(folder, forced.read_ids).top_ids
        if self._read_ids is not None and (self._read_ids.ndim != 2 or len(self._read_ids) < n):
            raise ValueError(f"ids to read of shape {self._read_ids.shape} along {n} tokens")
        self._logprobs = np.full(n, np.nan, np.float32)
        self._argmax_ids = np.zeros(n, np.int32)
        self._top_ids, self._top_logprobs = np.zeros((n, k), np.int32), np.full((n, k), np.nan, np.float32)
        width = 0 if self._read_ids is None else self._read_ids.shape[1]
        self._read_logprobs = np.full((n, width), np.nan, np.float32)
        self._tail_logprobs = np.full(n, np.nan, np.float32)

    def step(self, position: int, logits: torch.Tensor) -> None:
        """Notes what the model says at `position` and leaves the target alone possible.

        Args:
            logits: float32 [vocabulary], changed in place.
        """
        if not 0 <= position < len(self._forced.token_ids):
            return
        target = self._forced.token_ids[position]
        if target < len(logits):
            logprobs = torch.log_softmax(logits.float() / self._forced.temperature, dim=-1)
            self._note(position, target, logprobs)
            logits.fill_(-torch.inf)
            logits[target] = 0.0
        if position == len(self._forced.token_ids) - 1:
            self._write()

    def _note(self, position: int, target: int, logprobs: torch.Tensor) -> None:
        self._logprobs[position] = float(logprobs[target])
        self._argmax_ids[position] = int(logprobs.argmax())
        kept: torch.Tensor | None = None
        if self._forced.top_k:
            top = logprobs.topk(min(self._forced.top_k, len(logprobs)))
            kept = top.indices
            self._top_ids[position, : len(kept)] = kept.cpu().numpy()
            self._top_logprobs[position, : len(kept)] = top.values.float().cpu().numpy()
        if self._read_ids is not None:
            ids = self._read_ids[position].astype(np.int64)
            # Another checkpoint may have a smaller vocabulary. An index beyond it would end the engine.
            is_known = (ids >= 0) & (ids < len(logprobs))
            kept = torch.from_numpy(ids[is_known]).to(logprobs.device)
            self._read_logprobs[position, is_known] = logprobs[kept].float().cpu().numpy()
        if kept is not None:
            rest = logprobs.clone()
            rest[kept] = -torch.inf
            self._tail_logprobs[position] = float(torch.logsumexp(rest, dim=-1))

    def _write(self) -> None:
        keeps_top, reads = self._forced.top_k > 0, self._read_ids is not None
        result = ForcedResult(
            self._logprobs,
            self._argmax_ids,
            self._top_ids if keeps_top else None,
            self._top_logprobs if keeps_top else None,
            self._read_logprobs if reads else None,
            self._tail_logprobs if keeps_top or reads else None,
        )
        try:
            result.write(self._folder, self._forced.name)
        except OSError as error:  # kveval notices that the result is missing; other requests go on
            logger.error("kveval forced decode: the result cannot be written: %s", error)


class ForcedDecode(LogitsProcessor, V2LogitsProcessor):  # type: ignore[misc]
    """Forces the requests that carry target ids, and leaves all others alone.

    Args:
        where: with the V1 runner the device; with the V2 runner the requests' shared state.
    """

    def __init__(self, vllm_config: Any, where: Any, is_pin_memory: bool = False) -> None:  # noqa: ARG002 (vLLM's)
        self._prompt_tokens = getattr(where, "prompt_len", None)
        self._requests: dict[int, ForcedRequest] = {}
        self._folder = Path(os.environ[FOLDER_VARIABLE])
        logger.info("kveval forced decode: ready, with the V%d model runner", 1 if self._prompt_tokens is None else 2)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        ForcedOutput.from_xargs(sampling_params.extra_args)

    def is_argmax_invariant(self) -> bool:
        return False

    def _request(self, params: Any, _: list[int] | None, output_ids: list[int]) -> ForcedRequest | None:
        try:
            forced = ForcedOutput.from_xargs(params.extra_args)
            return None if forced is None else ForcedRequest(forced, self._folder, output_ids)
        except (OSError, ValueError) as error:  # an exception here would end the engine
            logger.error("kveval forced decode: a request is not forced: %s", error)
            return None

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """V1: keeps requests by their index in the batch."""
        process_dict_updates(self._requests, batch_update, self._request)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """V2: keeps requests by their slot, which an earlier request may have had."""
        request = self._request(sampling_params, None, [])
        self._requests.pop(req_idx, None)
        if request is not None:
            self._requests[req_idx] = request
        return request is not None

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        if self._requests:
            for row, position, request in self._due(ctx):
                request.step(position, logits[row])
        return logits

    def _due(self, ctx: Any) -> Iterator[tuple[int, int, ForcedRequest]]:
        """Yields row, position in the output, and request."""
        if ctx is None:
            for index, request in self._requests.items():
                yield index, len(request.output_ids), request
            return
        for row, slot in enumerate(ctx.idx_mapping_np):
            if int(slot) in self._requests and self._prompt_tokens is not None:
                seen = int(ctx.seq_lens_upper_bound_np[row])
                yield row, seen - int(self._prompt_tokens.np[slot]), self._requests[int(slot)]
