# SPDX-License-Identifier: BSD-3-Clause
"""The number of environments of each process: which memory it is found in, and one number for several GPUs."""

from dataclasses import replace

import pytest

from isaaclab_pc.commands import num_envs
from isaaclab_pc.commands.num_envs import FIRST_GPU_RESERVE, GpuGroup, group_gpus, smallest_answer
from isaaclab_pc.num_envs.fit import FitResult
from isaaclab_pc.num_envs.trial import Overrides
from isaaclab_pc.settings import RunSettings
from tests.fake_nvml import FakeGpu

GIB = 1 << 30


@pytest.mark.parametrize(
    ("gpus", "named", "groups"),
    [
        # Of equal ones the first has the least room, or one that others use.
        (["A 8 1"] * 3, (0, 1, 2), [((0, 1, 2), 0, 2)]),
        (["A 8 1", "A 8 2"], (0, 1), [((0, 1), 1, 0)]),
        # Other models and sizes are other groups.
        (["A 8 1", "B 8 1", "A 16 1", "B 8 1"], (0, 1, 2, 3), [((0,), 0, 3), ((1, 3), 1, 0), ((2,), 2, 0)]),
        # The first that is named is the first process.
        (["A 8 1", "B 8 1"], (1, 0), [((1,), 1, 1), ((0,), 0, 0)]),
        # A single one keeps its memory.
        (["A 8 1"], (0,), [((0,), 0, 0)]),
    ],
)
def test_gpus_that_stand_for_each_other_are_searched_where_there_is_the_least_room(nvml, gpus, named, groups) -> None:
    models = [gpu.split() for gpu in gpus]
    nvml.gpus = [FakeGpu(model, int(total) * GIB, int(used) * GIB) for model, total, used in models]
    found = group_gpus([f"cuda:{index}" for index in named])
    assert found == [
        GpuGroup(tuple(f"cuda:{index}" for index in those), f"cuda:{device}", others * FIRST_GPU_RESERVE)
        for those, device, others in groups
    ]


GROUPS = [GpuGroup((f"cuda:{index}",), f"cuda:{index}", 0) for index in range(3)]


class Searches:
    """Answers searches by device, and confirms any size with the overrides that it is given."""

    def __init__(self, *answers: tuple[int, Overrides]) -> None:
        self._answers = dict(zip([group.device for group in GROUPS], answers, strict=True))
        self.asked: list[tuple[str, int | None, Overrides]] = []

    def __call__(self, group: GpuGroup, num_envs: int | None, overrides: Overrides) -> FitResult:
        self.asked.append((group.device, num_envs, overrides))
        found, with_overrides = self._answers[group.device]
        if num_envs is not None:
            return FitResult(num_envs, (), False, "", overrides)
        return FitResult(found, (), False, "", with_overrides)


def test_the_smallest_answer_is_tried_on_the_gpus_that_bear_more() -> None:
    overrides = {"physics.contacts": 80}
    search = Searches((1024, {}), (512, overrides), (512, overrides))
    assert smallest_answer(GROUPS, search).num_envs == 512
    assert search.asked == [
        ("cuda:0", None, {}),
        ("cuda:1", None, {}),
        ("cuda:2", None, {}),
        ("cuda:0", 512, overrides),
    ]


def test_what_another_gpu_added_is_tried_by_all() -> None:
    search = Searches((512, {}), (1024, {}), (512, {}))
    asked = []

    def enlarge_on_the_second(group: GpuGroup, num_envs: int | None, overrides: Overrides) -> FitResult:
        answer = search(group, num_envs, overrides)
        asked.append((group.device, num_envs, overrides))
        is_small = group.device == "cuda:1" and num_envs is not None
        return replace(answer, overrides={"physics.contacts": 96}) if is_small else answer

    assert smallest_answer(GROUPS, enlarge_on_the_second).overrides == {"physics.contacts": 96}
    enlarged = {"physics.contacts": 96}
    assert asked[3:] == [("cuda:1", 512, {}), ("cuda:0", 512, enlarged), ("cuda:2", 512, enlarged)]


@pytest.mark.parametrize(
    ("given", "gpus_here", "searched"),
    [
        ({"device": "cpu"}, 0, [("cpu", 1)]),
        ({"device": "cpu", "gpus": 2}, 0, [("cpu", 2)]),
        ({"device": "cuda:0"}, 4, [("cuda:0", 1)]),
        ({"device": "cuda:0", "gpus": 2}, 4, [("cuda:0", 2), ("cuda:1", 2)]),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 1, [("cuda:0", 1)]),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 2, [("cuda:0", 2), ("cuda:1", 2)]),
        ({"device": "cpu", "cluster": "ray", "workers": 8}, 1, [("cpu", 8)]),
    ],
)
def test_processes_on_one_machine_share_it(monkeypatch, nvml, given, gpus_here, searched) -> None:
    asked = []

    def find(run, search, on_trial, *, processes, reserve=0):
        asked.append((search.device, processes))
        return FitResult(64, (), False, "")

    nvml.gpus = [FakeGpu(f"model {index}", 8 * GIB, GIB) for index in range(4)]
    monkeypatch.setattr(num_envs, "gpu_count", lambda: gpus_here)
    monkeypatch.setattr(num_envs, "find_num_envs", find)
    run = RunSettings(num_envs="auto").with_values({**given, "physics.backend": "newton_mjwarp"})
    assert num_envs.num_envs_per_process(run, lambda trial: None).num_envs == 64
    assert asked == searched
