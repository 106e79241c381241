# SPDX-License-Identifier: BSD-3-Clause
import threading
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics import backends
from isaaclab_pc.run import platform as requirements
from isaaclab_pc.run.platform import (
    check_gpus,
    check_isaaclab,
    check_logger,
    choose_platform,
    driver_versions,
    gpu_count,
    resolve_device,
    working_gpus,
)
from isaaclab_pc.settings import RunSettings
from tests.fake_nvml import FakeNvml, equal_gpus


@pytest.mark.parametrize("version", ["2.3.0", "3.1.0", "4.5.24", "29.0.0", None])
def test_another_isaac_lab_and_none_are_refused(monkeypatch, version):
    def find(name):
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(requirements.metadata, "version", find)
    with pytest.raises(ConfigError, match=rf"{version or ''} .*isaaclab==3\.0"):
        check_isaaclab()


def test_the_wheel_and_a_checkout_of_isaac_labs_repository_pass(monkeypatch):
    """The repository's pyproject.toml comes with the wheel, and has another version than the wheel."""
    check_isaaclab()
    file = metadata.distribution("isaaclab").locate_file("isaaclab/source/isaaclab/pyproject.toml")
    project = tomllib.loads(Path(str(file)).read_text())["project"]
    assert project["version"] != metadata.version("isaaclab")

    monkeypatch.setattr(requirements.metadata, "version", lambda _: project["version"])
    check_isaaclab()


@pytest.mark.parametrize(("count", "device"), [(None, "cpu"), (0, "cpu"), (1, "cuda:0"), (8, "cuda:0")])
def test_auto_is_the_first_gpu_where_there_is_one(nvml, count, device):
    nvml.gpus = None if count is None else equal_gpus(count)
    assert resolve_device("auto") == device


@pytest.mark.parametrize(
    ("visible", "count"), [("", 0), ("-1", 0), ("NoDevFiles", 0), ("7", 0), ("1, 0", 2), ("0,7,1", 1)]
)
def test_gpus_that_are_hidden_or_not_there_are_not_used(nvml, monkeypatch, visible, count):
    nvml.gpus = equal_gpus(2)
    nvml.install(monkeypatch, visible=visible)
    assert gpu_count() == count
    assert resolve_device("auto") == ("cuda:0" if count else "cpu")


@pytest.mark.parametrize(("given", "device"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:3", "cuda:3")])
def test_a_device_that_is_given_is_taken(given, device):
    assert resolve_device(given) == device


def test_device_and_backend_are_chosen_once(nvml, monkeypatch):
    nvml.gpus = []
    monkeypatch.setattr(backends, "is_installed", lambda module: module == "ovphysx")
    chosen = choose_platform(RunSettings())
    assert (chosen.device, chosen.physics.backend, chosen.num_envs) == ("cpu", "ovphysx", "auto")
    assert choose_platform(chosen) == chosen
    nvml.gpus = equal_gpus(1)
    chosen = choose_platform(RunSettings())
    assert (chosen.device, chosen.physics.backend) == ("cuda:0", "newton_mjwarp")


def test_another_order_of_the_gpus_is_refused_where_there_are_any(nvml, monkeypatch):
    monkeypatch.setattr(backends, "is_installed", lambda module: module == "ovphysx")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    nvml.gpus = []
    assert choose_platform(RunSettings()).device == "cpu"
    nvml.gpus = equal_gpus(1)
    with pytest.raises(ConfigError, match=r"^CUDA_DEVICE_ORDER=FASTEST_FIRST: .*PCI_BUS_ID"):
        choose_platform(RunSettings())
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert choose_platform(RunSettings()).device == "cuda:0"


def test_a_browser_shows_no_crowd_unless_it_is_forced(has_visualizers):
    has_visualizers("viser")
    settings = RunSettings(device="cpu", num_envs=65, visualizer="viser").with_values({"physics.backend": "ovphysx"})
    with pytest.raises(ConfigError, match=r"^num_envs=65: .*\b64\b.*force=true"):
        choose_platform(settings)
    assert choose_platform(settings.with_values({"force": True})).num_envs == 65
    assert choose_platform(settings.with_values({"num_envs": 64})).num_envs == 64


def test_several_gpus_are_asked_for_by_their_number():
    with pytest.raises(ConfigError, match=r"^device=cuda:0,cuda:1: gpus=2 "):
        choose_platform(RunSettings(device="cuda:0,cuda:1"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"device": "cuda:0", "gpus": 3}, r"^gpus=3: 2 .*CUDA_VISIBLE_DEVICES"),
        ({"device": "cuda:1", "gpus": 2}, r"^gpus=2 device=cuda:1: "),
        ({"device": "cpu", "gpus": 64}, r"^gpus=64 device=cpu: .* \d+ cores"),
        ({"device": "cpu", "gpus": 2, "supervise.enabled": False}, r"supervise\.enabled=false: .*gpus=1"),
        ({"device": "cpu", "nodes": 2, "supervise.enabled": False}, r"supervise\.enabled=false: .*nodes=1"),
    ],
)
@pytest.mark.usefixtures("nvml")
def test_gpus_that_are_not_there_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        check_gpus(RunSettings().with_values(values))


def test_gpus_that_are_there_pass(nvml, monkeypatch):
    nvml.gpus = equal_gpus(8)
    check_gpus(RunSettings(device="cuda:0", gpus=8))
    nvml.install(monkeypatch, visible="3,4")
    check_gpus(RunSettings(device="cuda:0", gpus=2))
    with pytest.raises(ConfigError, match="gpus=3: 2 "):
        check_gpus(RunSettings(device="cuda:0", gpus=3))


def test_the_driver_tells_the_newest_cuda_that_it_knows(monkeypatch):
    FakeNvml(equal_gpus(1), cuda=12040, driver="550.54").install(monkeypatch)
    assert driver_versions() == ("550.54", "12.4")
    FakeNvml(None).install(monkeypatch)
    assert driver_versions() is None


@pytest.mark.parametrize("ask", [gpu_count, driver_versions, working_gpus])
def test_the_driver_is_closed_after_each_question(nvml, monkeypatch, ask):
    ask()
    assert nvml.opened == 0

    def lost():
        raise nvml.NVMLError_GpuIsLost

    for question in ("nvmlDeviceGetCount", "nvmlSystemGetCudaDriverVersion_v2"):
        monkeypatch.setattr(nvml, question, lost)
    with pytest.raises(nvml.NVMLError):
        ask()
    assert nvml.opened == 0


def test_a_driver_that_hangs_is_refused_and_a_gpu_that_hangs_is_lost(nvml, monkeypatch):
    monkeypatch.setattr(requirements, "DEADLINE_S", 0.2)
    blocked = threading.Event()
    try:
        nvml.gpus[0].blocked = blocked
        assert working_gpus() == (["GPU-1"], 1)

        monkeypatch.setattr(nvml, "nvmlInit", blocked.wait)
        for ask in (gpu_count, driver_versions, working_gpus):
            with pytest.raises(ConfigError, match=r"0\.2 s.*nvidia-smi.*device=cpu"):
                ask()
    finally:
        blocked.set()


def test_torchrun_around_the_script_is_refused(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match=r"torchrun .*gpus=4"):
        check_gpus(RunSettings())


def test_a_logger_that_is_not_installed_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr(requirements, "is_installed", lambda name: False)
    with pytest.raises(ConfigError, match=r"^logger=wandb: .*'isaaclab_pc\[wandb\]'"):
        check_logger(RunSettings(logger="wandb"))
    check_logger(RunSettings())
