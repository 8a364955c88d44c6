"""The source of the vLLM that is installed, which is read and not imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

_SPEC = importlib.util.find_spec("vllm")
needs_vllm_source = pytest.mark.skipif(_SPEC is None, reason="no vLLM in this environment")


def vllm_file(path: str) -> Path:
    assert _SPEC is not None
    assert _SPEC.origin is not None
    return Path(_SPEC.origin).parent / path


def assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Every ``name = value`` of `body`, annotated or not."""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def backend_class(backend: str) -> tuple[ast.ClassDef, dict[str, ast.ClassDef]]:
    """The class of an attention backend, and all classes of its module."""
    registry = classes(vllm_file("v1/attention/backends/registry.py"))["AttentionBackendEnum"]
    dotted = str(ast.literal_eval(dict(assigned(registry.body))[backend]))
    module, _, name = dotted.removeprefix("vllm.").rpartition(".")
    found = classes(vllm_file(module.replace(".", "/") + ".py"))
    return found[name], found


def method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name), None)
