"""Specs of emulation to try."""

from __future__ import annotations

from hypothesis import strategies as st

from kveval.engines.plugin.emulation import EmulationSpec
from kveval.formats.registry import CODECS

INT8 = EmulationSpec(format="int8", granularity="per_token_head")

specs = st.one_of(
    st.builds(
        EmulationSpec,
        format=st.sampled_from(tuple(CODECS)),
        granularity=st.sampled_from(("per_tensor", "per_head", "per_channel", "per_token_head", "per_block_32")),
        layers=st.none() | st.lists(st.integers(0, 99), min_size=1, max_size=5).map(tuple),
    ),
    st.builds(
        EmulationSpec,
        format=st.sampled_from(tuple(CODECS)),
        granularity=st.just("per_tensor"),
        scale=st.floats(1e-6, 1e6),
    ),
)
