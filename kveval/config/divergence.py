"""``divergence`` of a sweep configuration: along what texts variants are compared."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from kveval.config.values import AbsolutePath, NoBoolean, StrictModel, check_listed_once


class DivergenceConfig(StrictModel):
    """Along what texts the divergence of every variant from the baseline is measured: the configuration's `divergence`.

    Attributes:
        samples: prompts after which the baseline writes an output that all variants are then made to write, spread over
            context lengths.
        tokens: how many are forced along each output, and at the end of each text.
        top_k: the baseline's most likely tokens whose probability is read at every step. All others count as one.
        texts: files with text of your own. The last `tokens` of each are forced, and all before them is the prompt.
    """

    samples: Annotated[int, Field(ge=0, le=10_000), NoBoolean] = 8
    tokens: Annotated[int, Field(gt=0, le=1 << 20), NoBoolean] = 256
    top_k: Annotated[int, Field(gt=0, le=1 << 14), NoBoolean] = 256
    texts: list[AbsolutePath] = []

    @model_validator(mode="after")
    def _something_once(self) -> DivergenceConfig:
        if not (self.samples or self.texts):
            raise ValueError("samples, texts: 0 and empty; use a number of samples, or a file in texts")
        check_listed_once("texts", self.texts)
        return self
