# SPDX-License-Identifier: BSD-3-Clause
"""The checks before a simulator starts, on Isaac Lab's own configs. Starts none."""

import re
import traceback
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import warp as wp
from isaaclab.sensors import CameraCfg
from isaaclab_ov.renderers import OVRTXRendererCfg
from isaaclab_physx.renderers import IsaacRtxRendererCfg

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.envs.point_cloud_env_cfg import fit_depth_camera
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.num_envs import preflight
from isaaclab_pc.num_envs.classify import classify_exit
from isaaclab_pc.num_envs.preflight import check_run, check_samples
from isaaclab_pc.num_envs.trial import Outcome
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers.probe_watch import ProbeWatch
from isaaclab_pc.workers.session import open_session

PLAN = BatchPlan(horizon=64, num_minibatches=4, minibatch_size=1024)
USUAL = 16 << 30
HUGE = 1 << 50
INSTALLED = ("isaacsim", "ovrtx")


def reach_cfg(num_envs: int = 64, device: str = "cpu", renderer: Any = None, **fields: Any) -> Any:
    cfg: Any = ReachEnvCfg(**fields)
    cfg.sim.device = device
    cfg.scene.num_envs = num_envs
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp"))
    fit_depth_camera(cfg)
    if renderer is not None:
        cfg.scene.camera.renderer_cfg = renderer
        cfg.scene.camera.width, cfg.scene.camera.height = 48, 36
    return cfg


@pytest.fixture(autouse=True)
def as_many_threads_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(preflight, "usable_cores", lambda: 4)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Set which packages seem installed."""

    def install(*modules: str) -> None:
        monkeypatch.setattr(preflight, "is_installed", lambda module: module in modules)

    return install


def check(cfg: Any, free: int = USUAL) -> list[str]:
    return check_run(cfg, free, trial=False)


def refused(cfg: Any, setting: str, free: int = USUAL, *, sized: bool = True) -> str:
    """Return the error, which names this setting, and bounds the search of a trial where it is one of size."""
    with pytest.raises(ConfigError, match=re.escape(setting)) as error:
        check(cfg, free)
    with pytest.raises(MemoryError if sized else ConfigError, match=re.escape(setting)):
        check_run(cfg, free, trial=True)
    return str(error.value)


def test_a_usual_run_is_fine() -> None:
    assert check(reach_cfg()) == []
    assert check(reach_cfg(4096, "cuda:0")) == []


# Renderers


@pytest.mark.parametrize(("renderer", "module"), [(IsaacRtxRendererCfg, "isaacsim"), (OVRTXRendererCfg, "ovrtx")])
def test_a_renderer_that_is_not_installed_is_refused(installed, renderer: Any, module: str) -> None:
    cfg = reach_cfg(renderer=renderer())
    installed(module)
    assert check(cfg) == []
    installed()
    assert module in refused(cfg, "env.scene.camera.renderer_cfg", sized=False)


def test_the_camera_of_isaac_labs_direct_tasks_is_beside_the_scene_and_renders_with_rtx_by_default(installed) -> None:
    cfg = reach_cfg()
    cfg.tiled_camera = CameraCfg(prim_path="/World/Camera", spawn=None, width=8, height=8)
    installed()
    refused(cfg, "env.tiled_camera.renderer_cfg", sized=False)


@pytest.mark.parametrize(
    ("renderer", "num_envs", "severity"),
    [
        (OVRTXRendererCfg(), 15_625, None),
        (OVRTXRendererCfg(), 15_626, "error"),
        (IsaacRtxRendererCfg(enable_scene_partitioning=True), 15_626, "error"),
        (IsaacRtxRendererCfg(enable_scene_partitioning=False), 15_626, "warning"),
        (IsaacRtxRendererCfg(), 4096, None),
        (IsaacRtxRendererCfg(), 4097, "warning"),
    ],
)
def test_rtx_keeps_so_many_environments_apart(installed, renderer: Any, num_envs: int, severity: str | None) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(num_envs, renderer=renderer)
    if severity == "error":
        refused(cfg, f"num_envs={num_envs}")
        return
    if severity == "warning":
        (warning,) = check(cfg)
        assert f"num_envs={num_envs}" in warning
        return
    # An environment has one partition for all of its cameras.
    cfg.scene.wrist = CameraCfg(prim_path="/World/W", spawn=None, width=8, height=8, renderer_cfg=OVRTXRendererCfg())
    assert check(cfg) == []


def test_images_must_fit_into_one_warp_array() -> None:
    cfg = reach_cfg(32_768, obs="depth")
    cfg.scene.camera.width, cfg.scene.camera.height = 256, 255
    assert check(cfg, HUGE) == []
    cfg.scene.camera.height = 256
    refused(cfg, "num_envs=32767", HUGE)


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        # 100 kB of simulation and 8 bytes for each of 80 x 60 pixels: 138,400 bytes of 16 GiB.
        ({"obs": "depth"}, (16 << 30) // 138_400),
        # A cloud by rays renders no image.
        ({}, (16 << 30) // 100_000),
        ({"obs": "state"}, (16 << 30) // 100_000),
    ],
)
def test_what_environments_and_images_take_at_least_must_be_free(fields: dict, most: int) -> None:
    assert check(reach_cfg(most, **fields)) == []
    refused(reach_cfg(most + 1, **fields), f"num_envs={most},")


def test_the_ceiling_is_warps_own() -> None:
    def flat(size: int) -> Any:
        return wp.array(ptr=8, dtype=wp.float32, shape=(size,), device="cpu", copy=False)

    assert flat(preflight.WARP_ELEMENTS).size == preflight.WARP_ELEMENTS
    with pytest.raises(ValueError, match="32-bit"):
        flat(preflight.WARP_ELEMENTS + 1)


def test_a_camera_that_nobody_observes_is_not_measured_but_must_be_installed(installed) -> None:
    assert check(reach_cfg(10_000_000, obs="state"), HUGE) == []
    installed()
    cfg = reach_cfg(10_000_000, obs="state", renderer=IsaacRtxRendererCfg())
    refused(cfg, "env.scene.camera.renderer_cfg", HUGE, sized=False)


# What becomes of findings


def test_more_threads_than_cores_give_a_warning_which_keeps_nothing_from_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 32)
    (warning,) = check(reach_cfg())
    assert "OMP_NUM_THREADS=4" in warning


def test_what_no_smaller_size_cures_is_refused_first(installed) -> None:
    installed()
    refused(reach_cfg(16_384, renderer=OVRTXRendererCfg()), "camera.renderer_cfg", sized=False)


def test_a_trial_with_too_many_environments_bounds_the_search_instead_of_ending_it(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(16_384, renderer=OVRTXRendererCfg())
    with pytest.raises(ConfigError, match="num_envs=16384"):
        check_run(cfg, USUAL, trial=False)
    with pytest.raises(MemoryError) as raised:
        check_run(cfg, USUAL, trial=True)
    outcome, line = classify_exit(1, "".join(traceback.format_exception(raised.value)))
    assert outcome is Outcome.OOM
    assert "num_envs=16384" in line


@pytest.mark.parametrize(("trial", "error"), [(False, ConfigError), (True, MemoryError)])
def test_a_session_is_refused_before_a_simulator_starts(tmp_path, trial: bool, error: type[Exception]) -> None:
    config = compose(["device=cpu", "physics=newton_mjwarp", "obs=depth"])
    watch = ProbeWatch("cpu", tmp_path / "phase") if trial else None
    session = open_session(config, 2_000_000, tmp_path, watch)
    with pytest.raises(error, match=r"env\.scene\.camera\.width=80"), session:
        pytest.fail("a simulator was started")
    assert {path.name for path in tmp_path.iterdir()} == ({"phase"} if trial else set())


# Samples


def space(points: tuple[int, ...], dtype: str = "float16") -> gym.spaces.Dict:
    """A cloud beside a vector, which does not count."""
    kind = np.dtype(dtype).type
    vector = gym.spaces.Box(-np.inf, np.inf, (24,))
    return gym.spaces.Dict({"policy": vector, "points": gym.spaces.Box(-np.inf, np.inf, points, kind)})


def test_a_rollout_that_does_not_fit_is_an_error_and_one_that_hardly_does_a_warning() -> None:
    cloud = space((3, 1024, 3), "float32")
    size = PLAN.samples_per_update * 3 * 1024 * 3 * 4
    assert check_samples(cloud, PLAN, 0, 2 * size, trial=False) == []
    for free in (2 * size - 1, size):
        (warning,) = check_samples(cloud, PLAN, 0, free, trial=True)
        assert "agent.samples_per_update" in warning
    for trial, error in ((False, ConfigError), (True, MemoryError)):
        with pytest.raises(error, match=r"144\.0 MiB(?s:.*)agent\.samples_per_update(?s:.*)points\.num_points"):
            check_samples(cloud, PLAN, 0, size - 1, trial=trial)


@pytest.mark.parametrize(("trial", "error"), [(False, ConfigError), (True, MemoryError)])
def test_a_replay_that_does_not_fit_is_refused(trial: bool, error: type[Exception]) -> None:
    # It keeps clouds as float16, whatever they are made as.
    cloud = space((64, 3), "float32")
    most = (1 << 30) // (64 * 3 * 2)
    assert check_samples(cloud, PLAN, most, 1 << 30, trial=trial) == []
    with pytest.raises(error, match=rf"^replay_samples={most + 1}:.*replay_samples={most},.*num_envs=auto"):
        check_samples(cloud, PLAN, most + 1, 1 << 30, trial=trial)


@pytest.mark.parametrize(
    "vectors", [gym.spaces.Box(-1.0, 1.0, (24,)), gym.spaces.Discrete(3), gym.spaces.Dict(), gym.spaces.Tuple(())]
)
def test_vectors_are_small(vectors: gym.Space) -> None:
    assert check_samples(vectors, PLAN, 0, 1, trial=False) == []
