from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from support.model_folder import write_safetensors

from kveval.errors import ConfigError
from kveval.models.weights import count_scales, read_weights, size_of_weights

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize {}\n"


def size(folder: Path) -> int | None:
    found = read_weights(folder)
    return found.total_bytes if found else None


def test_weights_are_counted_once(tmp_path: Path) -> None:
    assert read_weights(tmp_path) is None
    (tmp_path / "pytorch_model.bin").write_bytes(b"w" * 100)
    assert size(tmp_path) == 100
    whole = write_safetensors(tmp_path / "consolidated.safetensors", ["a"])
    assert size(tmp_path) == whole
    one = write_safetensors(tmp_path / "model-00001-of-00002.safetensors", ["a"])
    two = write_safetensors(tmp_path / "model-00002-of-00002.safetensors", ["b", "long name"])
    assert size(tmp_path) == one + two
    extra = write_safetensors(tmp_path / "extra.safetensors", ["c"])
    assert size(tmp_path) == one + two + extra
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert size(tmp_path) == size_of_weights(tmp_path) == one + two
    found = read_weights(tmp_path)
    assert found is not None
    assert sorted(found.tensors) == ["a", "b", "long name"]
    assert (found.tensors["a"].dtype, found.tensors["a"].shape) == ("F32", ())


def test_a_git_lfs_pointer_tells_the_size_of_its_file(tmp_path: Path) -> None:
    for shard, bytes_ in ((1, 4_976_698_672), (2, 1_000)):
        (tmp_path / f"model-0000{shard}-of-00002.safetensors").write_text(POINTER.format(bytes_))
    found = read_weights(tmp_path)
    assert found is not None
    assert (found.total_bytes, found.pointers) == (4_976_699_672, 2)
    assert size_of_weights(tmp_path) == 4_976_699_672


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin with the size of a header"),
        (b"version https://git-lfs", "does not begin with the size of a header"),
        (b"\xff" * 40, "does not begin with the size of a header"),
        (struct.pack("<Q", 10) + b"{", "cut off inside its header"),
        (struct.pack("<Q", 3) + b"[1]", "its header is not a JSON object"),
        (struct.pack("<Q", 3) + b"abc", "its header is not JSON"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "it is nested too deeply"),
        (struct.pack("<Q", 7) + b'{"a":1}', "its header does not describe a"),
        (b"version https://git-lfs.github.com/spec/v1\nno size", "does not begin with the size of a header"),
    ],
)
def test_what_is_not_safetensors_is_named_in_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^model: .*a\.safetensors .*{reason}") as refused:
        read_weights(tmp_path)
    assert "\n" not in str(refused.value)
    assert count_scales(tmp_path) is None
    assert size_of_weights(tmp_path) == len(content)


def test_a_file_that_is_cut_off_is_named_with_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    whole = write_safetensors(path, ["a"])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=f"cut off: it has {whole - 1} of {whole} bytes; use a complete copy"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [{"shape": 3}, {"shape": [-1]}, {"shape": [True]}, {"dtype": None}, {"data_offsets": [0]}, {"data_offsets": "04"}],
)
def test_a_tensor_without_its_place_is_named(tmp_path: Path, fields: dict[str, object]) -> None:
    header = json.dumps({"w\x1b[31m": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **fields}}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(ConfigError, match=r"does not describe w⟨U\+001B⟩\[31m$"):
        read_weights(tmp_path)


def test_missing_shards_are_counted(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model-00002-of-00003.safetensors", ["a"])
    with pytest.raises(ConfigError, match="has 1 of 3 model weight files; use a complete copy"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("[", "is not readable as JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "has no weight_map"),
        ('{"weight_map": []}', "has no weight_map"),
        ('{"weight_map": {"a": 1}}', "has no weight_map"),
        ('{"weight_map": {"a": "gone.safetensors"}}', r"gone\.safetensors is missing, which .*index\.json names"),
    ],
)
def test_a_broken_index_is_named(tmp_path: Path, index: str, reason: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    write_safetensors(tmp_path / "model.safetensors", ["a"])
    with pytest.raises(ConfigError, match=reason):
        read_weights(tmp_path)


def test_the_index_of_another_format_that_is_not_there_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}')
    whole = write_safetensors(tmp_path / "model.safetensors", ["a"])
    assert size(tmp_path) == whole


def test_scales_in_a_checkpoint_are_counted(tmp_path: Path) -> None:
    assert count_scales(tmp_path) == 0
    write_safetensors(tmp_path / "a.safetensors", ["model.layers.0.self_attn.q_proj.weight"])
    assert count_scales(tmp_path) == 0
    attention = "model.layers.0.self_attn"
    write_safetensors(tmp_path / "b.safetensors", [f"{attention}.k_scale", f"{attention}.v_scale", "w.weight_scale"])
    assert count_scales(tmp_path) == 2


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["layers.0.self_attn.k_proj.k_scale", "layers.0.self_attn.v_proj.v_scale"], 2),
        # Quark
        (["layers.0.self_attn.k_proj.output_scale", "layers.0.self_attn.q_proj.output_scale"], 1),
        (["layers.0.self_attn.k_cache.scale", "layers.0.self_attn.v_cache.scale"], 2),
        (["layers.0.mlp.down_proj.output_scale", "layers.0.self_attn.k_proj.weight_scale"], 0),
    ],
)
def test_scales_of_k_and_v_by_every_name(tmp_path: Path, names: list[str], count: int) -> None:
    write_safetensors(tmp_path / "model.safetensors", names)
    assert count_scales(tmp_path) == count
