# SPDX-License-Identifier: BSD-3-Clause
"""The number of environments of each process: which memory it is found in, and one number for several GPUs."""

import pytest

from isaaclab_pc.commands import num_envs
from isaaclab_pc.commands.num_envs import FIRST_GPU_RESERVE, fullest_gpu
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import FitResult
from isaaclab_pc.settings import RunSettings
from tests.fake_nvml import FakeGpu

GIB = 1 << 30


@pytest.mark.parametrize(
    ("gpus", "fullest", "others"),
    [
        # Of equal ones the first has the least room, or one that others use.
        (["A 8 1"] * 3, 0, 2),
        (["A 8 1", "A 8 2"], 1, 0),
        # A single one keeps its memory.
        (["A 8 1"], 0, 0),
    ],
)
def test_equal_gpus_are_searched_where_there_is_the_least_room(nvml, gpus, fullest, others) -> None:
    nvml.gpus = [gpu_of(gpu) for gpu in gpus]
    assert fullest_gpu(len(gpus)) == (f"cuda:{fullest}", others * FIRST_GPU_RESERVE)


@pytest.mark.parametrize("other", ["B 8 1", "A 16 1"])
def test_gpus_that_differ_need_a_number(nvml, other) -> None:
    nvml.gpus = [gpu_of("A 8 1"), gpu_of(other)]
    with pytest.raises(ConfigError, match=r"^num_envs=auto: .*Give num_envs, "):
        fullest_gpu(2)


def gpu_of(text: str) -> FakeGpu:
    model, total, used = text.split()
    return FakeGpu(model, int(total) * GIB, int(used) * GIB)


@pytest.mark.parametrize(
    ("given", "gpus_here", "searched"),
    [
        ({"device": "cpu"}, 0, [("cpu", 1)]),
        ({"device": "cpu", "gpus": 2}, 0, [("cpu", 2)]),
        ({"device": "cuda:0"}, 4, [("cuda:0", 1)]),
        ({"device": "cuda:0", "gpus": 2}, 4, [("cuda:0", 2)]),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 1, [("cuda:0", 1)]),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 2, [("cuda:0", 2)]),
        ({"device": "cpu", "cluster": "ray", "workers": 8}, 1, [("cpu", 8)]),
    ],
)
def test_processes_on_one_machine_share_it(monkeypatch, nvml, given, gpus_here, searched) -> None:
    asked = []

    def find(run, on_trial, *, processes, reserve=0):
        asked.append((run.device, processes))
        return FitResult(64, (), "")

    nvml.gpus = [gpu_of("A 8 1") for _ in range(4)]
    monkeypatch.setattr(num_envs, "gpu_count", lambda: gpus_here)
    monkeypatch.setattr(num_envs, "find_num_envs", find)
    run = RunSettings(num_envs="auto").with_values({**given, "physics.backend": "newton_mjwarp"})
    assert num_envs.num_envs_per_process(run, lambda trial: None).num_envs == 64
    assert asked == searched
