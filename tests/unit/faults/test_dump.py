# SPDX-License-Identifier: BSD-3-Clause
"""The file of a failed environment's last steps."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import FORMAT, SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.utils.packages import installed_versions


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
    with pytest.raises(ConfigError, match=r"^env=0: .*7, 12"):
        dump.position_of(0)


def write_changed(change: Callable[[FaultDump], object]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        dump = make_dump()
        change(dump)
        dump.save(path)

    return write


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


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, ""),
        (lambda path: path.mkdir(), "npz"),
        (lambda path: path.write_bytes(b""), "npz"),
        (lambda path: path.write_text("robot,joint\n1,2\n"), "npz"),
        (lambda path: np.savez(path, a=np.zeros(3)), ""),
        (lambda path: np.savez(path, about=np.array("[1]")), ""),
        (lambda path: np.savez(path, about=np.array("not JSON")), "npz"),
        (lambda path: np.savez(path, about=np.array("[" * 100_000)), "npz"),
        (write_pickle, "npz"),
        (write_cut_off, "npz"),
        (write_flipped_bytes, "npz"),
        (write_bomb, "1,100 MiB"),
        (write_huge_header, "header"),
        (write_changed(lambda dump: dump.about.update(format=FORMAT + 1)), f"{FORMAT + 1}, .* {FORMAT}: "),
        (write_changed(lambda dump: dump.about.pop("config")), "config: "),
        (write_changed(lambda dump: dump.about.update(assets={"cube": []})), r"assets\.cube: "),
        (write_changed(lambda dump: dump.about.update(task=None)), "task: "),
        (write_changed(lambda dump: dump.arrays.pop("length")), "length"),
        (write_changed(lambda dump: dump.arrays.update(cause=np.array(["one", "two"]))), "cause"),
        (write_changed(lambda dump: dump.arrays.update(episode=dump.arrays["episode"][:, :2])), "sizes"),
        (write_changed(lambda dump: dump.arrays.update(length=np.array([4, 2]))), "sizes"),
        (write_changed(lambda dump: dump.arrays.update({k: v[:0] for k, v in dump.arrays.items()})), "sizes"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, write, message: str) -> None:
    path = tmp_path / "dump.npz"
    write(path)
    with pytest.raises(ConfigError, match=f"^dump={path}.*{message}"):
        FaultDump.load(path)
