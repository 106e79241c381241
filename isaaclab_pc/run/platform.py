# SPDX-License-Identifier: BSD-3-Clause
"""Where a run will run: device, physics backend, what must be installed. Chosen once, in the parent.

No torch, no simulator, no waiting. A child trusts what was chosen here.
"""

import functools
import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from typing import Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.backends import INSTALL_ISAACSIM, resolve_backend
from isaaclab_pc.processes.deadline import DEADLINE_S, answer_of
from isaaclab_pc.run.visualizers import NUM_ENVS_SHOWN, check_host, check_num_envs_shown, check_visualizers
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import is_installed

_ISAACLAB_VERSIONS = ("3.0.", "28.")
"""How the versions of release 3.0 begin: of Isaac Lab's wheel, and of the package in its repository."""


def check_isaaclab() -> None:
    """Refuse an Isaac Lab that is missing or not release 3.0, with a ConfigError."""
    try:
        version = metadata.version("isaaclab")
    except metadata.PackageNotFoundError:
        raise ConfigError("Isaac Lab is not installed: pip install 'isaaclab==3.0.*'.") from None
    if not version.startswith(_ISAACLAB_VERSIONS):
        raise ConfigError(
            f"Isaac Lab {version} is installed, and release 3.0 is needed: pip install 'isaaclab==3.0.*', or check it "
            "out in Isaac Lab's repository, where it is version 28."
        )


def choose_platform(settings: RunSettings) -> RunSettings:
    """Choose the device and the physics backend that will run, and check the visualizers.

    With a visualizer, ``num_envs=auto`` becomes a few.

    Raises:
        ConfigError: ``device`` names several GPUs, or the backend or a visualizer cannot start here.
    """
    if "," in settings.device:
        raise ConfigError(
            f"device={settings.device}: gpus={settings.device.count(',') + 1} is for several GPUs, and "
            "CUDA_VISIBLE_DEVICES chooses which."
        )
    device = resolve_device(settings.device)
    order = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if device != "cpu" and order != "PCI_BUS_ID":
        # A number would mean another GPU to CUDA than to the driver's own library.
        raise ConfigError(
            f"CUDA_DEVICE_ORDER={order}: GPUs are counted by PCI_BUS_ID here, as in nvidia-smi. Unset it, and choose "
            "GPUs with CUDA_VISIBLE_DEVICES."
        )
    backend = resolve_backend(settings.physics.backend, device)
    if (settings.physics.backend, backend) == ("physx", "ovphysx"):
        current().decide(
            f"note: physics=physx runs as ovphysx; for Isaac Sim's PhysX: {INSTALL_ISAACSIM}",
            **{"physics.backend": backend},
        )

    check_visualizers(settings.visualizers, backend)
    check_host(settings.host)
    num_envs = settings.num_envs
    if settings.visualizers and num_envs == "auto":
        num_envs = NUM_ENVS_SHOWN
        current().decide(
            f"num_envs={num_envs}: with a visualizer on, auto means {num_envs}; num_envs=<number> is kept",
            num_envs=num_envs,
        )

    if num_envs != "auto" and "viser" in settings.visualizers:
        check_num_envs_shown(num_envs, settings.force)
    return settings.with_values({"device": device, "physics.backend": backend, "num_envs": num_envs})


def check_logger(settings: RunSettings) -> None:
    """Refuse a logger whose package is not installed, with a ConfigError that says what to install."""
    if settings.logger == "wandb" and not is_installed("wandb"):
        raise ConfigError("logger=wandb: Weights & Biases is not installed: pip install 'isaaclab_pc[wandb]'.")


def check_gpus(settings: RunSettings) -> None:
    """Refuse more GPUs than there are, or processes that other settings exclude, with a ConfigError."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ConfigError(
            "torchrun started this script, which starts its processes itself: leave torchrun out, and give "
            f"gpus={os.environ.get('LOCAL_WORLD_SIZE', '<number>')}."
        )
    if settings.gpus * settings.nodes > 1 and not settings.supervise.enabled:
        raise ConfigError(
            f"gpus={settings.gpus} nodes={settings.nodes} and supervise.enabled=false: a debugger sees one process; "
            "give gpus=1 nodes=1."
        )
    if settings.gpus == 1:
        return
    if settings.device == "cpu":
        there = len(os.sched_getaffinity(0))
        if settings.gpus > there:
            raise ConfigError(f"gpus={settings.gpus} device=cpu: there are {there} cores for as many processes.")
        return
    if settings.device != "cuda:0":
        raise ConfigError(
            f"gpus={settings.gpus} device={settings.device}: several GPUs begin with the first; leave device out, and "
            "choose them with CUDA_VISIBLE_DEVICES."
        )
    there = gpu_count()
    if settings.gpus > there:
        raise ConfigError(f"gpus={settings.gpus}: {there} are visible here; see nvidia-smi and CUDA_VISIBLE_DEVICES.")


def resolve_device(device: str) -> str:
    """Turn ``auto`` into ``cuda:0`` where the driver has a GPU, else ``cpu``; the parent opens no CUDA context."""
    if device == "auto":
        return "cuda:0" if gpu_count() > 0 else "cpu"
    return "cuda:0" if device == "cuda" else device


def gpu_count() -> int:
    """Return the number of GPUs that this process sees; raise a ConfigError where the driver hangs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return 0

    def count(nvml: Any) -> int:
        if visible is None:
            return nvml.nvmlDeviceGetCount()
        # As CUDA does, which sees those before the first name that means no GPU.
        names = (name.strip() for name in visible.split(","))
        return sum(1 for _ in itertools.takewhile(lambda name: _uuid(nvml, name) is not None, names))

    return _ask_driver(count, 0)


def driver_versions() -> tuple[str, str] | None:
    """Return the versions of the NVIDIA driver and of the newest CUDA that it knows; None without a driver.

    Raises:
        ConfigError: The driver does not answer.
    """

    def versions(nvml: Any) -> tuple[str, str]:
        # 12040 is 12.4.
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        return nvml.nvmlSystemGetDriverVersion(), f"{cuda // 1000}.{cuda % 1000 // 10}"

    return _ask_driver(versions, None)


def working_gpus() -> tuple[list[str], int]:
    """Return the UUIDs of the visible GPUs that still answer, in CUDA's order, and how many do not.

    Raises:
        ConfigError: The driver does not even tell how many there are.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")

    def names(nvml: Any) -> list[str]:
        return visible.split(",") if visible else [str(index) for index in range(nvml.nvmlDeviceGetCount())]

    answers: list[str | None] = []
    for name in _ask_driver(names, []):
        try:
            answers.append(_ask_driver(functools.partial(_uuid, name=name.strip()), None))
        except ConfigError:
            answers.append(None)
    working = [answer for answer in answers if answer is not None]
    return working, len(answers) - len(working)


def _uuid(nvml: Any, name: str) -> str | None:
    """Return the UUID of a GPU, named as in CUDA_VISIBLE_DEVICES; None where it does not answer."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
        # That it has no memory of its own, or may not tell, is an answer too.
        with suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission):
            nvml.nvmlDeviceGetMemoryInfo(handle)
        return nvml.nvmlDeviceGetUUID(handle)
    except nvml.NVMLError:
        return None


def _ask_driver[Answer](question: Callable[[Any], Answer], without: Answer) -> Answer:
    """Ask NVML; return ``without`` where there is no driver, and raise a ConfigError where it hangs."""
    import pynvml

    def ask() -> Answer:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return without
        try:
            return question(pynvml)
        finally:
            pynvml.nvmlShutdown()

    try:
        return answer_of(ask, DEADLINE_S)
    except TimeoutError as error:
        raise ConfigError(
            f"the NVIDIA driver gives {error}: see whether nvidia-smi does, or use device=cpu."
        ) from error
