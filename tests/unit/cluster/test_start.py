# SPDX-License-Identifier: BSD-3-Clause
"""What starts the processes of a run, and what is refused before."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.cluster import start
from isaaclab_pc.cluster.start import check_cluster, start_command
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.jobs import PROGRAM, TrainJob
from isaaclab_pc.settings import RunSettings
from tests.fake_nvml import FakeNvml, equal_gpus

CHECKPOINT = Path("model_3.pt")


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Return the command line of a run that begins, or goes on, up to the worker's."""

    def start(begins: bool, **settings: object) -> list[str]:
        job = TrainJob(RunSettings().with_values(settings), None if begins else CHECKPOINT)
        words = start_command(job, tmp_path)
        path = tmp_path / "job.json"
        assert TrainJob.read(path) == job
        assert words[-2:] == ["train", str(path)]
        return words

    return start


@pytest.fixture
def driver(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the driver know some GPUs, of which some do not answer."""

    def install(count: int, lost: set[int], visible: str | None = None) -> None:
        nvml.gpus = equal_gpus(count)
        for index in lost:
            nvml.gpus[index].memory_error = nvml.NVMLError_GpuIsLost
        nvml.install(monkeypatch, visible)

    return install


def test_one_process_needs_no_launcher(command):
    assert command(True)[:-2] == [*PROGRAM]


@pytest.mark.parametrize(
    ("lost", "visible", "gpus", "expected"),
    [
        ({1}, None, 4, "GPU-0,GPU-2,GPU-3"),
        # One of the others takes its place.
        ({1}, None, 3, "GPU-0,GPU-2,GPU-3"),
        ({3}, "1,3", 2, "GPU-1"),
        ({3}, "GPU-3,GPU-2", 2, "GPU-2"),
    ],
)
def test_a_run_goes_on_with_the_gpus_that_answer(command, driver, capsys, lost, visible, gpus, expected):
    driver(4, lost, visible)
    there = len(expected.split(","))
    words = command(False, gpus=gpus, device="cuda:0")
    assert words[:2] == ["env", f"CUDA_VISIBLE_DEVICES={expected}"]
    assert (f"--ranks={there}" in words) == (there > 1)
    assert words[-6:-2] == [*PROGRAM]
    assert f" {there} GPUs of {gpus}" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [FakeNvml.NVMLError_NotSupported, FakeNvml.NVMLError_NoPermission])
def test_a_gpu_that_does_not_tell_its_memory_answers(command, driver, nvml, capsys, answer):
    driver(2, {1})
    nvml.gpus[0].memory_error = answer
    assert command(False, gpus=2, device="cuda:0")[:2] == ["env", "CUDA_VISIBLE_DEVICES=GPU-0"]


@pytest.mark.parametrize(("lost", "begins"), [(set(), False), ({0, 1, 2, 3}, False), ({1}, True)])
def test_otherwise_all_gpus_are_tried(command, driver, capsys, lost, begins):
    driver(4, lost)
    words = command(begins, gpus=4, device="cuda:0")
    assert words[0] == sys.executable
    assert "--ranks=4" in words
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("begins", "at_least"), [(True, 3), (False, 1)])
def test_a_ray_cluster_gets_pythons_arguments_and_the_log(command, tmp_path, begins, at_least):
    words = command(begins, cluster="ray", workers=3, device="cuda:0")
    launcher, program = words[: words.index("--")], words[words.index("--") + 1 :]
    assert {"--workers=3", f"--at-least={at_least}", "--gpu", f"--log={tmp_path / 'worker.log'}"} <= set(launcher)
    assert program[:-2] == [*PROGRAM[1:]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"workers": 4}, "^workers=4 .*cluster=ray .*gpus=4"),
        ({"cluster": "ray", "gpus": 2}, "^cluster=ray gpus=2 nodes=1: .*workers="),
        ({"cluster": "ray", "supervise.enabled": False}, "^cluster=ray .*supervise.enabled=false"),
        ({"cluster": "ray", "device": "cuda:1"}, "^cluster=ray device=cuda:1: .*device=cuda"),
        ({"cluster": "ray", "device": "cuda:0"}, "^cluster=ray num_envs=auto: .*scale.py"),
    ],
)
def test_settings_that_do_not_fit_a_cluster_are_refused(monkeypatch, values, message):
    monkeypatch.setattr(start, "gpu_count", lambda: 0)
    with pytest.raises(ConfigError, match=message):
        check_cluster(RunSettings(device="cpu").with_values(values))
    check_cluster(RunSettings())
    check_cluster(RunSettings(device="cpu", cluster="ray", workers=4))
    check_cluster(RunSettings(device="cuda:0", cluster="ray", workers=4, num_envs=64))
