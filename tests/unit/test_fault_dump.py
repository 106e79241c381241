# SPDX-License-Identifier: BSD-3-Clause
"""The file of a failed environment's last steps."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.fault_dump import FORMAT, SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.packages import installed_versions


def make_dump() -> FaultDump:
    about = {
        "format": FORMAT,
        "task": "IsaacPC-Lift-Cube-Franka-Direct",
        "config": {"seed": 3, "physics": {"backend": "ovphysx", "dt": None}},
        "seed": 3,
        "backend": "ovphysx",
        "versions": installed_versions(SIMULATION_PACKAGES),
        "dt": 0.02,
        "decimation": 2,
        "assets": {"cube": {"kind": "rigid_object", "joints": []}},
        "causes": ["fault"],
    }
    arrays = {
        "env_id": np.array([7, 12]),
        "cause": np.array([1, 1]),
        "step": np.array([40, 40]),
        "length": np.array([3, 2]),
        "episode": np.zeros((2, 3), dtype=np.int64),
        "episode_step": np.array([[0, 1, 2], [5, 6, -1]]),
        "action": np.zeros((2, 3, 4), dtype=np.float32),
        "before.cube.root_pose": np.full((2, 3, 7), np.nan, dtype=np.float32),
        "after.cube.root_pose": np.full((2, 7), np.inf, dtype=np.float32),
    }
    return FaultDump(about, arrays)


def test_a_file_reads_back_as_it_was_written_and_needs_no_pickle(tmp_path: Path) -> None:
    dump = make_dump()
    dump.save(tmp_path / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    loaded = FaultDump.load(tmp_path / "a.npz")
    assert loaded.about == dump.about
    assert loaded.arrays.keys() == dump.arrays.keys()
    for name, value in dump.arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], value)
        assert loaded.arrays[name].dtype == value.dtype


def test_environments_are_found_by_their_index_in_the_run() -> None:
    dump = make_dump()
    assert [dump.position_of(None), dump.position_of(7), dump.position_of(12)] == [0, 0, 1]
    with pytest.raises(ConfigError, match="env=0: the dump holds 7, 12"):
        dump.position_of(0)


def write_other_format(path: Path) -> None:
    dump = make_dump()
    dump.about["format"] = FORMAT + 1
    dump.save(path)


def write_without_array(path: Path) -> None:
    dump = make_dump()
    del dump.arrays["length"]
    dump.save(path)


def write_without_config(path: Path) -> None:
    dump = make_dump()
    del dump.about["config"]
    dump.save(path)


def write_contradiction(path: Path) -> None:
    dump = make_dump()
    dump.arrays["episode"] = dump.arrays["episode"][:, :2]
    dump.save(path)


def write_too_long(path: Path) -> None:
    dump = make_dump()
    dump.arrays["length"][0] = 4
    dump.save(path)


def write_cut_off(path: Path) -> None:
    make_dump().save(path)
    path.write_bytes(path.read_bytes()[:-40])


def write_flipped_bytes(path: Path) -> None:
    make_dump().save(path)
    content = bytearray(path.read_bytes())
    content[60:70] = b"0123456789"
    path.write_bytes(content)


def write_pickle(path: Path) -> None:
    np.savez(path, about=np.array({"format": 1}, dtype=object))


def write_bomb(path: Path) -> None:
    make_dump().save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("bomb.npy", "w") as file:
        for _ in range(1100):
            file.write(bytes(1 << 20))


def write_huge_header(path: Path) -> None:
    make_dump().save(path)
    with zipfile.ZipFile(path, "a") as archive, archive.open("before.cube.huge.npy", "w") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(file, header)


def write_words(path: Path) -> None:
    dump = make_dump()
    dump.arrays["cause"] = np.array(["one", "two"])
    dump.save(path)


def write_about(name: str, value: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        dump = make_dump()
        dump.about[name] = value
        dump.save(path)

    return write


def write_empty_history(path: Path) -> None:
    dump = make_dump()
    dump.arrays = {name: value[:0] for name, value in dump.arrays.items()}
    dump.save(path)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (lambda path: path.write_text("robot,joint\n1,2\n"), "cannot be read"),
        (lambda path: np.savez(path, a=np.zeros(3)), "was not written by the guard"),
        (lambda path: np.savez(path, about=np.array("[1]")), "was not written by the guard"),
        (lambda path: np.savez(path, about=np.array("not JSON")), "cannot be read"),
        (write_pickle, "cannot be read"),
        (write_other_format, f"format {FORMAT + 1}, this version reads {FORMAT}"),
        (write_without_array, "length is missing"),
        (write_without_config, "config is missing"),
        (write_contradiction, "contradict"),
        (write_too_long, "contradict"),
        (write_empty_history, "contradict"),
        (write_cut_off, "cannot be read"),
        (write_flipped_bytes, "cannot be read"),
        (write_bomb, "it unpacks to 1,100 MiB, more than such a file has"),
        (write_huge_header, "has the header of a larger array"),
        (write_words, "cause holds no numbers"),
        (lambda path: np.savez(path, about=np.array("[" * 100_000)), "cannot be read"),
        (write_about("versions", ["1.0"]), "versions: input should be a valid dictionary"),
        (write_about("assets", 3), "assets: input should be a valid dictionary"),
        (write_about("assets", {"cube": []}), "assets.cube: input should be a valid dictionary"),
        (write_about("causes", {}), "causes: input should be a valid list"),
        (write_about("task", None), "task: input should be a valid string"),
        (write_about("config", [1]), "config: input should be a valid dictionary"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, write, message: str) -> None:
    path = tmp_path / "dump.npz"
    write(path)
    with pytest.raises(ConfigError, match=message) as error:
        FaultDump.load(path)
    assert str(path) in str(error.value)
