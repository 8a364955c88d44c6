"""What `scripts/gpu-check` does: one small sweep of every cache dtype that this device stores, and what it showed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jinja2
from benchmarks import kernels

import kveval
from gpu_check.checks import Check, checks_of
from gpu_check.sweep import WhatToSweep, what_to_sweep
from kveval.config.engine import EngineConfig
from kveval.engines.base import Installation
from kveval.engines.registry import find_installation
from kveval.errors import KvevalError
from kveval.measure import provenance
from kveval.run.directory import RunDirectory


def main(arguments: list[str]) -> int:
    """Returns 0 if nothing failed, 1 if a check did, and kveval's own exit code if the sweep could not begin."""
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu-check"), help="default: runs/gpu-check")
    parser.add_argument("--model", default="smollm2", help="a demo model or a checkpoint folder; default: smollm2")
    parser.add_argument("--dtypes", help="cache dtypes, such as fp8,int8_per_token_head; default: all of this device")
    parser.add_argument("--kernels", action="store_true", help="also compare vLLM's kernels with emulated formats")
    options = parser.parse_args(arguments)
    try:
        installation = find_installation(EngineConfig())
        wanted = what_to_sweep(installation, options.model, options.dtypes.split(",") if options.dtypes else None)
        run = options.out / "run"
        kveval.sweep(wanted.config, out=run, resume=(run / "manifest.json").exists())
    except KvevalError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    document = _document(installation, wanted, run, kernels.measure() if options.kernels else None)
    (options.out / "gpu-check.json").write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        (Path(__file__).parent / "page.html.j2").read_text()
    )
    (options.out / "gpu-check.html").write_text(page.render(document))
    for check in document["checks"]:
        print(f"{check['status']:8} {check['name']}: {check['said']}")
    print(f"attach to an issue: {options.out / 'gpu-check.html'} and {options.out / 'gpu-check.json'}")
    return 1 if any(check["status"] == "failed" for check in document["checks"]) else 0


def _document(
    installation: Installation, wanted: WhatToSweep, run: Path, compared: dict[str, Any] | None
) -> dict[str, Any]:
    checks = [*checks_of(RunDirectory(run), wanted)]
    checks += [Check(f"stores {name}", "skipped", reason) for name, reason in wanted.refused.items()]
    if compared is not None:
        checks += [_kernel_check(name, compared[name]) for name in ("int8", "fp8_e4m3")]
    return {
        "made": provenance.now(),
        "environment": {
            "kveval": kveval.__version__,
            "vllm": f"{installation.distribution} {installation.version}",
            "torch": installation.torch_version,
            "python": ".".join(map(str, sys.version_info[:3])),
            "device": installation.device_name,
            "kind": installation.device.kind,
            "architecture": installation.device.architecture,
            "model": Path(wanted.config["model"]).name,
        },
        "checks": [check.as_data() for check in checks],
        "kernels": compared,
    }


def _kernel_check(name: str, found: dict[str, Any]) -> Check:
    is_equal = found["other_codes"] == 0 and found["equal_scales"]
    between, ours = found["attention"]["between"], found["attention"]["ours"]
    return Check(
        f"kernels of {name}",
        "ok" if is_equal and between < ours / 100 else "failed",
        f"{found['equal_codes']:.2%} of {found['values']:,} codes equal, {found['other_codes']} unexplained; attention "
        f"differs from emulated attention by {between:.1e}, and that from exact attention by {ours:.1e}",
    )
