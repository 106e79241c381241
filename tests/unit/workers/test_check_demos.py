# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of demonstrations have to mean what they mean in the run that learns from them."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.workers.check_demos import check_demos

RUN = {
    "output": {"rate_hz": 30.000001, "parts": [{"name": "way", "from": 0, "to": 3, "scale": 0.05, "meaning": "to"}]},
    "inputs": [{"name": "policy", "parts": [{"name": "joint", "from": 0, "to": 7, "steps_ago": 0, "unit": "rad"}]}],
    "cloud": {"frame": "env", "channels": {"xyz": [0, 3], "normals": [3, 6]}, "num_points": 128},
}


def recorded(folder: Path, env_args: Any) -> str:
    """Return a file that tells this of its episodes."""
    path = folder / "demos.hdf5"
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps(env_args)
    return str(path)


def test_another_rate_frame_or_unit_is_refused_by_its_name(tmp_path: Path) -> None:
    def set_rate(there: Any) -> None:
        there["output"]["rate_hz"] = 15.0

    def set_scale(there: Any) -> None:
        there["output"]["parts"][0]["scale"] = 0.1

    def set_unit(there: Any) -> None:
        there["inputs"][0]["parts"][0]["unit"] = "deg"

    def set_frame(there: Any) -> None:
        there["cloud"]["frame"] = "robot"

    def set_features(there: Any) -> None:
        there["cloud"]["channels"] = {"xyz": [0, 3], "rgb": [3, 6]}

    changes: dict[str, Callable[[Any], None]] = {
        r"rate_hz had 15\.0 .* 30\.0": set_rate,
        r"the action had .*way.* 0\.1.* 0\.05": set_scale,
        r"the state had .*joint.*deg.*rad": set_unit,
        r"points\.frame had robot .* env": set_frame,
        r"points\.features had rgb .* normals": set_features,
    }
    for message, change in changes.items():
        there = copy.deepcopy(RUN)
        change(there)
        with pytest.raises(ConfigError, match=message):
            check_demos(recorded(tmp_path, {"description": there}), RUN)


def test_a_run_that_sees_no_cloud_may_learn_from_a_file_with_clouds(tmp_path: Path) -> None:
    check_demos(recorded(tmp_path, {"description": RUN}), {name: RUN[name] for name in ("output", "inputs")})


def test_shapes_words_and_what_a_file_does_not_tell_are_no_reason(tmp_path: Path) -> None:
    there: Any = copy.deepcopy(RUN)
    there["cloud"]["num_points"] = 64
    there["output"]["parts"][0]["meaning"] = "towards"
    for env_args in ({"description": there}, {"description": {"output": {"rate_hz": 30}}}, {"description": None}, {}):
        check_demos(recorded(tmp_path, env_args), RUN)


@pytest.mark.parametrize(
    "env_args", [[], {"description": {"cloud": {}}}, {"description": {"output": {"rate_hz": "?"}}}]
)
def test_a_file_that_tells_it_in_another_way_is_refused(tmp_path: Path, env_args: Any) -> None:
    with pytest.raises(ConfigError, match=r"^demos=.*demos\.hdf5: its env_args are not those of docs/demos\.md"):
        check_demos(recorded(tmp_path, env_args), RUN)
