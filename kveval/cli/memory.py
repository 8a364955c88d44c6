"""The command that sizes a model's KV cache."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import kveval
from kveval.cli.console import STDOUT, print_json
from kveval.cli.options import AsJson, lengths, names
from kveval.formats.backends import DEVICES

memory_app = typer.Typer()


@memory_app.command(
    epilog="Examples:\n\n"
    "  kveval memory /models/Llama-3.1-8B-Instruct\n\n"
    "  kveval memory /models/Llama-3.1-8B-Instruct --memory 80GiB --lengths 4k,32k,128k --formats bf16,fp8,int8\n\n"
    "  kveval memory config.json --memory 80GiB --weights 141GB --tensor-parallel 4 --json\n\n"
    "  kveval memory smollm2 --device cpu --cache 2GiB"
)
def memory(
    model: Annotated[Path, typer.Argument(help="A checkpoint folder, its config.json, or a demo model.")],
    device_memory: Annotated[
        str | None,
        typer.Option("--memory", help="Memory of one device, such as 80GiB. Shows what fits as well."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Size of the weights over all devices. Default: the checkpoint's files.")
    ] = None,
    utilization: Annotated[float, typer.Option(help="Share of the memory the engine may use.")] = 0.9,
    cache: Annotated[
        str | None, typer.Option(help="Memory of the cache itself, instead of --memory and --weights.")
    ] = None,
    formats: Annotated[str | None, typer.Option(help="Cache formats, such as bf16,fp8,int8.")] = None,
    context_lengths: Annotated[
        str | None, typer.Option("--lengths", help="Context lengths in tokens, such as 4k,32k,128k.")
    ] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens per block. Default: vLLM's.")] = None,
    tensor_parallel: Annotated[int, typer.Option(help="Devices that share the model.")] = 1,
    device: Annotated[
        str, typer.Option(help=f"{', '.join(DEVICES)}. Decides what is stored, and defaults of the engine.")
    ] = "gpu",
    batched_tokens: Annotated[
        int | None, typer.Option(help="The engine's max-num-batched-tokens. Default: vLLM's for this memory.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Size a model's KV cache per format from its config.json, and show what fits on a device. Starts nothing."""
    from kveval.memory.table import memory_table

    sizes = kveval.estimate_memory(
        model,
        memory=device_memory,
        weights=weights,
        utilization=utilization,
        cache=cache,
        formats=names(formats),
        lengths=lengths(context_lengths),
        block_size=block_size,
        tensor_parallel=tensor_parallel,
        device=device,
        batched_tokens=batched_tokens,
    )
    if as_json:
        print_json({"model": str(model), **asdict(sizes)})
    else:
        STDOUT.print(memory_table(str(model), sizes))
