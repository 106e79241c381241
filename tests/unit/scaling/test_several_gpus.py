# SPDX-License-Identifier: BSD-3-Clause
"""One number for several GPUs, against a fake NVML and with searches that are told their answers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling import FitResult
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.several_gpus import GpuGroup, group_gpus, smallest_answer
from isaaclab_pc.scaling.trial import Overrides
from tests.fake_nvml import FakeGpu, FakeNvml

GIB = 1 << 30
EXTRA = GIB // 2


@pytest.fixture
def group(nvml: FakeNvml) -> Callable[..., list[GpuGroup]]:
    """Group GPUs of a machine, given (model, total GiB, used GiB) of each."""

    def make(gpus: list[tuple[str, int, int]], devices: list[str] | None = None) -> list[GpuGroup]:
        nvml.gpus = [FakeGpu(model, total * GIB, used * GIB) for model, total, used in gpus]
        named = devices or [f"cuda:{index}" for index in range(len(gpus))]
        return group_gpus(named, EXTRA, Gpu)

    return make


def test_equal_gpus_are_one_group_searched_on_the_first_which_has_the_least_room(group) -> None:
    first, second, third = "cuda:0", "cuda:1", "cuda:2"
    assert group([("A", 8, 1)] * 3) == [GpuGroup((first, second, third), first, 2 * EXTRA)]


def test_a_gpu_that_others_use_may_have_less_room_than_the_first(group) -> None:
    assert group([("A", 8, 1), ("A", 8, 2)]) == [GpuGroup(("cuda:0", "cuda:1"), "cuda:1", 0)]


def test_other_models_and_sizes_are_other_groups(group) -> None:
    assert group([("A", 8, 1), ("B", 8, 1), ("A", 16, 1), ("B", 8, 1)]) == [
        GpuGroup(("cuda:0",), "cuda:0", 3 * EXTRA),
        GpuGroup(("cuda:1", "cuda:3"), "cuda:1", 0),
        GpuGroup(("cuda:2",), "cuda:2", 0),
    ]


def test_the_first_that_is_named_is_the_first_process(group) -> None:
    assert group([("A", 8, 1), ("B", 8, 1)], ["cuda:1", "cuda:0"])[0] == GpuGroup(("cuda:1",), "cuda:1", EXTRA)


def test_a_single_gpu_keeps_all_of_its_memory(group) -> None:
    assert group([("A", 8, 1)]) == [GpuGroup(("cuda:0",), "cuda:0", 0)]


def test_a_gpu_that_is_named_twice_is_refused(group) -> None:
    with pytest.raises(ConfigError, match="device=cuda:0,cuda:0 names a GPU twice"):
        group([("A", 8, 1)], ["cuda:0", "cuda:0"])


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


def test_one_answer_for_all_needs_no_further_trial() -> None:
    search = Searches(*[(512, {})] * 3)
    assert smallest_answer(GROUPS, search).num_envs == 512
    assert len(search.asked) == 3


def test_overrides_that_another_gpu_needs_are_part_of_the_answer() -> None:
    search = Searches((512, {"minibatch_size": 64}), (1024, {}), (512, {"minibatch_size": 64}))

    def grow(group: GpuGroup, num_envs: int | None, overrides: Overrides) -> FitResult:
        answer = search(group, num_envs, overrides)
        return answer if num_envs is None else FitResult(num_envs, (), False, "", {**overrides, "physics.contacts": 80})

    assert smallest_answer(GROUPS, grow).overrides == {"minibatch_size": 64, "physics.contacts": 80}


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


def test_a_gpu_on_which_nothing_fits_ends_it() -> None:
    def search(group: GpuGroup, num_envs: int | None, overrides: Overrides) -> FitResult:
        if group.device == "cuda:1":
            raise ConfigError("no size fits")
        return FitResult(512, (), False, "")

    with pytest.raises(ConfigError, match="no size fits"):
        smallest_answer(GROUPS, search)
