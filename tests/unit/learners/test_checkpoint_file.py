# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoint files: safe, atomic, and honest about what they are."""

import os
import pickle
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.checkpoint_file import (
    NonFiniteError,
    check_header,
    check_intact,
    load_checkpoint,
    read_header,
    rng_state,
    save_checkpoint,
    set_rng_state,
)


class Bomb:
    """Runs a command when unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple:
        return (os.mkdir, (str(self.target),))


def write(path: Path, state: dict[str, Any], header: str | None = '{"format": 1}') -> None:
    """Write a checkpoint as a stranger would, with any state and header."""
    with path.open("wb") as file:
        torch.save(state, file)
    if header is not None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("archive/header.json", header)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.pt"
    nested = {"step": np.float64(0.5), "betas": (np.float32(0.5), 1)}
    state = {"weights": torch.arange(3.0), "list": [1, 2.5, "x", None], "nested": nested}
    save_checkpoint(path, state, {"task": "reach", "iteration": 3})
    loaded, header = load_checkpoint(path, "cpu")
    torch.testing.assert_close(loaded["weights"], state["weights"])
    assert loaded["list"] == [1, 2.5, "x", None]
    assert loaded["nested"] == {"step": 0.5, "betas": (0.5, 1)}
    assert type(loaded["nested"]["step"]) is float
    assert (header["task"], header["iteration"], header["format"]) == ("reach", 3, 1)
    assert [entry.name for entry in path.parent.iterdir()] == ["model.pt"]


def test_header_is_read_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {}, {"task": "reach"})
    code = (
        "import sys, pathlib; from isaaclab_pc.learners import read_header;"
        f"print(read_header(pathlib.Path({str(path)!r}))['task']); assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "reach"


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"step": 1}, {})
    with pytest.raises(TypeError, match=r"state\.bad\[0\]"):
        save_checkpoint(path, {"bad": [tmp_path]}, {})
    with pytest.raises(TypeError):
        save_checkpoint(path, {"step": 2}, {"not json": object()})
    with pytest.raises(NonFiniteError, match=r"model\.pt"):
        save_checkpoint(path, {"networks": [{"weights": torch.tensor([1.0, float("nan")])}]}, {})
    assert load_checkpoint(path, "cpu")[0] == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pt"]


def test_a_file_from_a_stranger_runs_no_code(tmp_path: Path) -> None:
    target = tmp_path / "harm"
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps(Bomb(target)))
    write(tmp_path / "without_header.pt", {"weights": Bomb(target)}, header=None)
    write(tmp_path / "with_header.pt", {"weights": Bomb(target)})
    for name in ("pickle.pt", "without_header.pt", "with_header.pt"):
        with pytest.raises(ConfigError, match=name):
            load_checkpoint(tmp_path / name, "cpu")
    assert not target.exists()


@pytest.mark.parametrize(
    "header",
    ["{", "[]", '{"format": 99}', "[" * 100_000, " " * (1 << 20) + '{"format": 1}'],
    ids=["cut", "list", "format", "nested", "large"],
)
def test_strange_headers_are_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "model.pt"
    write(path, {}, header)
    with pytest.raises(ConfigError, match=r"model\.pt"):
        read_header(path)


def test_a_missing_or_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"weights": torch.zeros(1000)}, {})
    path.write_bytes(path.read_bytes()[:1500])
    for name in ("model", "nowhere"):
        with pytest.raises(ConfigError, match=rf"{name}\.pt"):
            load_checkpoint(tmp_path / f"{name}.pt", "cpu")


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {"weights": torch.full((1000,), 1.5)}, {})
    check_intact(path)
    value = torch.tensor([1.5]).numpy().tobytes()
    other = torch.tensor([1.75]).numpy().tobytes()
    path.write_bytes(path.read_bytes().replace(value, other, 1))
    with pytest.raises(ConfigError, match=r"archive/data/0.*checksum"):
        load_checkpoint(path, "cpu")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path: Path, method: int) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {}, {})
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("archive/data/0", bytes(1 << 24))
    with pytest.raises(ConfigError, match="compressed"):
        load_checkpoint(path, "cpu")


def test_an_unknown_method_of_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, {}, {})
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.rindex(signature) + offset
        content[at : at + 2] = (77).to_bytes(2, "little")
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.pt"):
        read_header(path)


def test_a_state_that_is_not_finite_or_lacks_what_is_asked_for_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model.pt", {"weights": torch.tensor([1.0, float("nan")])})
    with pytest.raises(ConfigError, match="finite"):
        load_checkpoint(tmp_path / "model.pt", "cpu")

    save_checkpoint(tmp_path / "model.pt", {"algorithm": {}}, {})
    with pytest.raises(ConfigError, match="iteration, rng"):
        load_checkpoint(tmp_path / "model.pt", "cpu", ("algorithm", "rng", "iteration"))


def test_a_header_of_something_else_names_both(tmp_path: Path) -> None:
    check_header({"task": "reach", "extra": 1}, {"task": "reach", "unknown to old files": 2}, tmp_path)
    with pytest.raises(ConfigError, match=r"task=reach.*task=lift"):
        check_header({"task": "reach"}, {"task": "lift"}, tmp_path)


def test_random_generators_go_on_where_they_were(tmp_path: Path) -> None:
    random.gauss(0.0, 1.0)  # leaves half of a pair in the generator
    np.random.standard_normal()
    save_checkpoint(tmp_path / "model.pt", rng_state("cpu"), {})

    def draw() -> list[float]:
        return [
            random.gauss(0.0, 1.0),
            random.random(),
            np.random.standard_normal(),
            np.random.rand(),
            float(torch.rand(1)),
        ]

    first = draw()
    set_rng_state(load_checkpoint(tmp_path / "model.pt", "cpu")[0], "cpu")
    assert draw() == first
