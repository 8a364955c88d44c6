"""What counts as evidence of emulation: writes after the warm-up."""

from __future__ import annotations

from kveval.engines.plugin.first_step import FirstStep, after_warm_up, all_subclasses


class Worker:
    def compile_or_warm_up_model(self) -> str:
        return "base"


class GPUWorker(Worker):
    def compile_or_warm_up_model(self) -> str:
        return f"gpu, {super().compile_or_warm_up_model()}"


class PlainWorker(Worker):
    pass


def test_nothing_is_evidence_before_warm_up_is_over() -> None:
    step = FirstStep()
    assert not step.is_under_way
    after_warm_up(all_subclasses(Worker), step.begin)
    after_warm_up(all_subclasses(Worker), step.begin)
    assert PlainWorker().compile_or_warm_up_model() == "base"
    assert step.is_under_way
    assert GPUWorker().compile_or_warm_up_model() == "gpu, base"


def test_the_first_step_ends_when_a_layer_writes_again() -> None:
    step = FirstStep()
    step.begin()
    assert step.saw("layers.0.attn", 0, is_rounded=False) is False
    assert step.saw("layers.1.attn", 1, is_rounded=True) is True
    # A layer may have two attentions.
    assert step.saw("layers.1.other", 1, is_rounded=True) is False
    step.saw("layers.2.attn", 2, is_rounded=True)
    assert step.is_under_way
    assert step.saw("layers.0.attn", 0, is_rounded=False) is False
    assert not step.is_under_way
    assert (step.rounded, step.kept) == ({1, 2}, {0})
