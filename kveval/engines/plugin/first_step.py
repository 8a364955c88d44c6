"""What the first step of an engine shows of emulation: which layers were rounded, and which were not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass
class FirstStep:
    """The layers that wrote real tokens in this process, from the end of its warm-up until one of them writes again.

    An engine may warm up with real slots and made-up tokens. What it writes then is no evidence, and calibrates no
    scale.
    """

    rounded: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    has_begun: bool = False
    is_over: bool = False

    def begin(self) -> None:
        """Note that warm-up is over."""
        self.has_begun = True

    @property
    def is_under_way(self) -> bool:
        return self.has_begun and not self.is_over

    def saw(self, name: str, layer: int, *, is_rounded: bool) -> bool:
        """Note a write of the attention called `name` in a layer. Returns True for the first rounded write of all."""
        if name in self.names:
            self.is_over = True
            return False
        is_first = is_rounded and not self.rounded
        self.names.add(name)
        (self.rounded if is_rounded else self.kept).add(layer)
        return is_first


def after_warm_up(workers: Iterable[type], note: Callable[[], None]) -> None:
    """Make vLLM's worker classes call `note` once they have warmed up.

    vLLM has no hook there. Each class is changed once, however often this is called.
    """
    for worker in workers:
        warm_up = vars(worker).get("compile_or_warm_up_model")
        if warm_up is not None and not hasattr(warm_up, "_kveval"):
            worker.compile_or_warm_up_model = _noting(warm_up, note)  # type: ignore[attr-defined]


def _noting(warm_up: Callable[..., object], note: Callable[[], None]) -> Callable[..., object]:
    def compile_or_warm_up_model(self: object) -> object:
        result = warm_up(self)
        note()
        return result

    compile_or_warm_up_model._kveval = True  # type: ignore[attr-defined]
    return compile_or_warm_up_model


def all_subclasses(base: type) -> list[type]:
    """Return `base` and every class below it that has been imported."""
    below: list[type] = base.__subclasses__()
    return [base, *(found for one in below for found in all_subclasses(one))]
