"""What the processor does to the logits of a batch, for both of vLLM's model runners, without a server."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kveval.engines.plugin.forcing import FOLDER_VARIABLE, ForcedOutput, ForcedResult

pytestmark = pytest.mark.vllm

VOCABULARY = 11


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    pytest.importorskip("vllm")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    from kveval.engines.plugin import forced_decode

    return forced_decode


def params(forced: ForcedOutput | None) -> SimpleNamespace:
    return SimpleNamespace(extra_args=None if forced is None else forced.xargs())


def update(*added: Any, removed: tuple[int, ...] = (), moved: tuple[Any, ...] = ()) -> SimpleNamespace:
    return SimpleNamespace(batch_size=4, removed=list(removed), added=list(added), moved=list(moved))


def logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


def test_forced_rows_become_the_target_and_free_rows_keep_their_bits(module: Any, tmp_path: Path) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    forced, output = ForcedOutput([3, 9], 0.5), []
    processor.update_state(update((0, params(None), [1], []), (1, params(forced), [1], output)))
    first, second = logits(2, 1), logits(2, 2)
    for step, target in ((first, 3), (second, 9)):
        after = processor.apply(step.clone())
        assert torch.equal(after[0], step[0])
        assert int(after[1].argmax()) == target
        assert torch.isinf(after[1]).sum() == VOCABULARY - 1
        output.append(target)
        processor.update_state(None)
    result = ForcedResult.read(tmp_path, forced.name)
    wanted = [float(torch.log_softmax(step[1] / 0.5, -1)[target]) for step, target in ((first, 3), (second, 9))]
    np.testing.assert_allclose(result.logprobs, wanted, rtol=1e-6)
    assert result.argmax_ids.tolist() == [int(first[1].argmax()), int(second[1].argmax())]


def test_requests_are_followed_when_the_batch_moves_them(module: Any, tmp_path: Path) -> None:
    from vllm.v1.sample.logits_processor.interface import MoveDirectionality

    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    one, two = ForcedOutput([1]), ForcedOutput([2])
    processor.update_state(update((0, params(one), [1], []), (1, params(two), [1], [])))
    processor.update_state(update(moved=((0, 1, MoveDirectionality.SWAP),)))
    step = processor.apply(logits(2))
    assert step.argmax(-1).tolist() == [2, 1]
    processor.update_state(update(removed=(0,)))
    untouched = logits(2, 5)
    assert torch.equal(processor.apply(untouched.clone())[0], untouched[0])


def test_a_cancelled_request_leaves_no_result_and_its_place_is_free(module: Any, tmp_path: Path) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    processor.update_state(update((0, params(ForcedOutput([1, 2, 3])), [1], [])))
    processor.apply(logits(1))
    processor.update_state(update((0, params(None), [1], [])))
    step = logits(1, 7)
    assert torch.equal(processor.apply(step.clone()), step)
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_is_computed_twice_counts_the_last_time(module: Any, tmp_path: Path) -> None:
    """A long prompt is computed in chunks, and each chunk has logits."""
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    forced = ForcedOutput([4])
    processor.update_state(update((0, params(forced), [1], [])))
    processor.apply(logits(1, 1))
    last = logits(1, 2)
    processor.apply(last.clone())
    assert ForcedResult.read(tmp_path, forced.name).logprobs[0] == pytest.approx(
        float(torch.log_softmax(last[0], -1)[4])
    )


def test_a_target_outside_the_vocabulary_is_not_a_number_and_stops_nothing(module: Any, tmp_path: Path) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    forced = ForcedOutput([VOCABULARY])
    processor.update_state(update((0, params(forced), [1], [])))
    step = logits(1)
    assert torch.equal(processor.apply(step.clone()), step)
    assert np.isnan(ForcedResult.read(tmp_path, forced.name).logprobs[0])


@pytest.mark.parametrize(("bad", "wanted"), [(float("nan"), np.nan), (-torch.inf, -np.inf)])
def test_logits_that_are_not_numbers_are_noted_as_such(module: Any, tmp_path: Path, bad: float, wanted: float) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    forced = ForcedOutput([4])
    processor.update_state(update((0, params(forced), [1], [])))
    step = logits(1)
    step[0, 4] = bad
    assert int(processor.apply(step)[0].argmax()) == 4
    np.testing.assert_array_equal(ForcedResult.read(tmp_path, forced.name).logprobs, [wanted])


def test_the_most_likely_tokens_and_the_rest_add_up(module: Any, tmp_path: Path) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    forced = ForcedOutput([4], top_k=5)
    processor.update_state(update((0, params(forced), [1], [])))
    step = logits(1)
    processor.apply(step.clone())
    result = ForcedResult.read(tmp_path, forced.name)
    assert result.top_ids is not None
    assert result.top_logprobs is not None
    assert result.tail_logprobs is not None
    assert result.top_ids[0].tolist() == step[0].topk(5).indices.tolist()
    assert np.exp(result.top_logprobs[0]).sum() + np.exp(result.tail_logprobs[0]) == pytest.approx(1.0)

    other = ForcedOutput([4], read_ids=forced.name)
    processor.update_state(update((0, params(other), [1], [])))
    processor.apply(step.clone())
    read = ForcedResult.read(tmp_path, other.name)
    assert read.read_logprobs is not None
    np.testing.assert_allclose(read.read_logprobs, result.top_logprobs, rtol=1e-6)


def test_ids_to_read_beyond_the_vocabulary_are_not_numbers_and_stop_nothing(module: Any, tmp_path: Path) -> None:
    processor = module.ForcedDecode(None, torch.device("cpu"), False)
    nothing = np.zeros(0, np.float32)
    theirs = ForcedOutput([4])
    ForcedResult(nothing, nothing, top_ids=np.array([[2, VOCABULARY, -1]], np.int32)).write(tmp_path, theirs.name)
    forced = ForcedOutput([4], read_ids=theirs.name)
    processor.update_state(update((0, params(forced), [1], [])))
    step = logits(1)
    processor.apply(step.clone())
    read = ForcedResult.read(tmp_path, forced.name)
    assert read.read_logprobs is not None
    assert read.tail_logprobs is not None
    wanted = torch.log_softmax(step[0], -1)[2]
    np.testing.assert_allclose(read.read_logprobs[0], [wanted, np.nan, np.nan], rtol=1e-6)
    assert np.exp(read.tail_logprobs[0]) == pytest.approx(1 - float(wanted.exp()), rel=1e-5)


def test_the_second_model_runner_is_served_by_slots(module: Any, tmp_path: Path) -> None:
    """As vllm/v1/worker/gpu/sample/logits_processor/interface.py of vLLM 0.32 describes; no GPU ran it."""
    states = SimpleNamespace(prompt_len=SimpleNamespace(np=np.array([0, 0, 0, 100, 0])))
    processor = module.ForcedDecode(None, states)
    forced = ForcedOutput([6, 2])
    assert processor.add_request(3, params(forced))
    assert not processor.add_request(1, params(None))

    def context(seen: int) -> SimpleNamespace:
        return SimpleNamespace(idx_mapping_np=np.array([1, 3]), seq_lens_upper_bound_np=np.array([50, seen]))

    chunk = logits(2)
    assert torch.equal(processor.apply(chunk.clone(), context(64)), chunk)  # the prompt is not computed yet
    for seen, target in ((100, 6), (101, 2)):
        step = logits(2, seen)
        after = processor.apply(step.clone(), context(seen))
        assert int(after[1].argmax()) == target
        assert torch.equal(after[0], step[0])
    assert np.isfinite(ForcedResult.read(tmp_path, forced.name).logprobs).all()
    processor.add_request(3, params(None))
    assert torch.equal(processor.apply(chunk.clone(), context(102)), chunk)


def test_it_is_what_both_runners_take(module: Any) -> None:
    from vllm.v1.sample.logits_processor import LogitsProcessor
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2LogitsProcessor

    assert issubclass(module.ForcedDecode, LogitsProcessor)
    assert issubclass(module.ForcedDecode, V2LogitsProcessor)
    with pytest.raises(ValueError, match="kveval_targets"):
        module.ForcedDecode.validate_params(SimpleNamespace(extra_args={"kveval_targets": []}))
