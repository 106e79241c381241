# SPDX-License-Identifier: BSD-3-Clause
"""The checks before a simulator starts, on Isaac Lab's own configs. Starts none."""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false

import traceback
from types import SimpleNamespace
from typing import Any

import isaaclab.sim as sim_utils
import numpy as np
import pytest
import warp as wp
from isaaclab.assets import AssetBaseCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg, UsdPhysicsMeshCollisionCfg
from isaaclab_newton.physics import NewtonCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_ov.renderers import OVRTXRendererCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_physx.renderers import IsaacRtxRendererCfg
from isaaclab_physx.sim.schemas import PhysxConvexHullCfg, PhysxSDFMeshCfg
from pxr import Usd, UsdGeom, UsdPhysics

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.scaling import BatchPlan, Outcome, plan_batch, preflight
from isaaclab_pc.scaling.classify import classify_exit
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.observation_size import kept_bytes
from isaaclab_pc.scaling.preflight import Finding, check_run
from isaaclab_pc.sensors import GivenPointsCfg, PointCloud
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers.probe_watch import ProbeWatch
from isaaclab_pc.workers.session import open_session

PLAN = BatchPlan(horizon=64, num_minibatches=4, minibatch_size=1024)
MACHINE = Machine(free_bytes=16 << 30, threads=2, cores=2)
HUGE = Machine(free_bytes=1 << 50, threads=2, cores=2)
INSTALLED = ("isaacsim", "ovrtx")


def reach_cfg(num_envs: int = 64, device: str = "cpu", **fields: Any) -> Any:
    cfg: Any = ReachEnvCfg(**fields)
    cfg.sim.device = device
    cfg.scene.num_envs = num_envs
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp"))
    return cfg


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Set which packages seem installed."""

    def install(*modules: str) -> None:
        monkeypatch.setattr(preflight, "is_installed", lambda module: module in modules)

    return install


def check(cfg: Any, plan: BatchPlan = PLAN, machine: Machine = MACHINE) -> list[Finding]:
    """Run the checks; every message must name its setting."""
    findings = preflight.preflight(cfg, plan, machine)
    for finding in findings:
        assert finding.setting in str(finding)
    return findings


def only(cfg: Any, plan: BatchPlan = PLAN, machine: Machine = MACHINE) -> Finding:
    (finding,) = check(cfg, plan, machine)
    return finding


def test_a_usual_run_is_fine() -> None:
    assert check(reach_cfg()) == []
    assert check(reach_cfg(4096, "cuda:0")) == []


# Renderers


@pytest.mark.parametrize(
    ("renderer", "module", "command"),
    [(IsaacRtxRendererCfg, "isaacsim", "install Isaac Lab together"), (OVRTXRendererCfg, "ovrtx", "pip install")],
)
def test_a_renderer_that_is_not_installed_is_refused(installed, renderer: Any, module: str, command: str) -> None:
    cfg = reach_cfg()
    cfg.scene.camera.renderer_cfg = renderer()
    installed(module)
    assert check(cfg) == []
    installed()
    finding = only(cfg)
    assert (finding.severity, finding.setting) == ("error", "env.scene.camera.renderer_cfg")
    assert not finding.sized
    assert f"needs {module}: {command}" in str(finding)
    assert "NewtonWarpRendererCfg" in str(finding)


def test_the_camera_of_isaac_labs_direct_tasks_is_beside_the_scene_and_renders_with_rtx_by_default(installed) -> None:
    cfg = reach_cfg()
    cfg.tiled_camera = CameraCfg(prim_path="/World/Camera", spawn=None, width=8, height=8)
    installed()
    assert only(cfg).setting == "env.tiled_camera.renderer_cfg"


def test_rtx_has_a_partition_for_each_environment_whatever_its_cameras(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(15_625)
    cfg.scene.camera.renderer_cfg = OVRTXRendererCfg()
    cfg.scene.wrist = CameraCfg(prim_path="/World/W", spawn=None, width=8, height=8, renderer_cfg=OVRTXRendererCfg())
    assert check(cfg) == []
    cfg.scene.num_envs += 1
    first, second = check(cfg)
    assert (first.severity, first.setting, first.sized) == ("error", "num_envs", True)
    assert "num_envs=15625" in str(first)
    assert "scaling.max=15625" in str(first)
    assert "env.scene.wrist" in str(second)


def test_without_partitions_their_number_is_no_limit(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(15_626)
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg(enable_scene_partitioning=True)
    assert only(cfg).severity == "error"
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg(enable_scene_partitioning=False)
    assert only(cfg).severity == "warning"


def test_more_views_than_isaac_sims_rtx_was_seen_to_return_give_a_warning(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(4096)
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg()
    assert check(cfg) == []
    cfg.scene.num_envs = 4097
    finding = only(cfg)
    assert (finding.severity, finding.setting) == ("warning", "num_envs")


def test_isaac_sims_viewport_beside_its_cameras_gives_a_warning(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg()
    assert preflight.preflight(cfg, PLAN, MACHINE, ["kit"]) == [], "another renderer draws this camera"
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg()
    assert preflight.preflight(cfg, PLAN, MACHINE, ["viser", "newton_gl"]) == []
    (finding,) = preflight.preflight(cfg, PLAN, MACHINE, ["viser", "kit"])
    assert (finding.severity, finding.setting) == ("warning", "visualizer")
    assert "env.scene.camera" in str(finding)
    assert check_run(cfg, PLAN, MACHINE, trial=False, visualizers=["kit"]) == [str(finding)]


def test_images_must_fit_into_one_warp_array() -> None:
    cfg = reach_cfg(32_768)
    cfg.scene.camera.width, cfg.scene.camera.height = 256, 255
    assert check(cfg, machine=HUGE) == []
    cfg.scene.camera.height = 256
    finding = only(cfg, machine=HUGE)
    assert (finding.severity, finding.setting, finding.sized) == ("error", "num_envs", True)
    assert "env.scene.camera.width=256" in str(finding)
    assert "num_envs=32767" in str(finding)


@pytest.mark.parametrize(
    ("fields", "num_envs", "fits"),
    [
        # 100 kB of simulation and 8 bytes for each of 48 x 36 pixels: 113,824 bytes of 16 GiB.
        ({}, (16 << 30) // 113_824, True),
        ({}, (16 << 30) // 113_824 + 1, False),
        ({"obs": "state"}, (16 << 30) // 100_000, True),
        ({"obs": "state"}, (16 << 30) // 100_000 + 1, False),
    ],
)
def test_what_environments_and_images_take_at_least_must_be_free(fields: dict, num_envs: int, fits: bool) -> None:
    found = [finding for finding in check(reach_cfg(num_envs, **fields)) if "take" in str(finding)]
    if fits:
        assert found == []
    else:
        assert (found[0].severity, found[0].sized) == ("error", True)
        assert f"Use at most num_envs={num_envs - 1}" in str(found[0])


def test_large_images_of_few_environments_are_refused_too() -> None:
    cfg = reach_cfg(64)
    cfg.scene.camera.width = 8192
    cfg.scene.camera.height = 8192
    assert any("take 32.0 GiB at least" in str(finding) for finding in check(cfg))


def test_the_ceiling_is_warps_own() -> None:
    def flat(size: int) -> Any:
        return wp.array(ptr=8, dtype=wp.float32, shape=(size,), device="cpu", copy=False)

    assert flat(preflight.WARP_ELEMENTS).size == preflight.WARP_ELEMENTS
    with pytest.raises(ValueError, match="signed 32-bit"):
        flat(preflight.WARP_ELEMENTS + 1)


def test_a_camera_that_nobody_observes_is_not_measured_but_must_be_installed(installed) -> None:
    cfg = reach_cfg(10_000_000, obs="state")
    assert check(cfg, machine=HUGE) == []
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg()
    installed()
    assert only(cfg, machine=HUGE).setting == "env.scene.camera.renderer_cfg"


# PhysX


@pytest.mark.parametrize("physics", [PhysxCfg, OvPhysxCfg])
def test_physx_on_a_gpu_needs_room_for_contacts(physics: Any) -> None:
    cfg = reach_cfg(8192, "cuda:0")
    cfg.sim.physics = physics()
    finding = only(cfg)
    assert (finding.severity, finding.setting) == ("warning", "env.sim.physics.gpu_max_rigid_patch_count")
    assert "leaves 20 contact patches" in str(finding)
    assert "gpu_max_rigid_patch_count=327680" in str(finding)
    cfg.sim.physics.gpu_max_rigid_patch_count = 327_680
    assert check(cfg) == []


@pytest.mark.parametrize(
    ("physics", "num_envs", "device"),
    [(PhysxCfg, 4096, "cuda:0"), (OvPhysxCfg, 8192, "cpu"), (NewtonCfg, 8192, "cuda:0")],
)
def test_few_environments_the_cpu_and_newton_have_no_patch_buffer_to_fill(
    physics: Any, num_envs: int, device: str
) -> None:
    cfg = reach_cfg(num_envs, device)
    cfg.sim.physics = physics()
    assert check(cfg) == []


# Rollout


def test_a_rollout_that_does_not_fit_is_an_error_and_one_that_hardly_does_a_warning() -> None:
    cfg = reach_cfg()
    cfg.scene.points.num_points, cfg.scene.points.dtype = 1024, "float32"
    size = PLAN.samples_per_update * 1024 * 3 * 4
    assert check(cfg, machine=Machine(2 * size, 2, 2)) == []
    assert only(cfg, machine=Machine(2 * size - 1, 2, 2)).severity == "warning"
    assert only(cfg, machine=Machine(size, 2, 2)).severity == "warning"
    finding = only(cfg, machine=Machine(size - 1, 2, 2))
    assert (finding.severity, finding.setting, finding.sized) == ("error", "points.num_points", True)
    for setting in ("points.num_points=1024", "points.dtype=float16", "agent.samples_per_update"):
        assert setting in str(finding)
    assert "48.0 MiB" in str(finding)


def test_several_frames_take_as_many_times_the_memory_and_can_be_fewer() -> None:
    cfg = reach_cfg(history_length=3)
    cfg.scene.points.num_points, cfg.scene.points.dtype = 1024, "float16"
    assert "72.0 MiB" in str(only(cfg, machine=Machine(10 << 20, 2, 2)))
    assert "env.history_length=3" in str(only(cfg, machine=Machine(10 << 20, 2, 2)))


def test_half_the_precision_takes_half_the_memory() -> None:
    cfg = reach_cfg()
    cfg.scene.points.num_points, cfg.scene.points.dtype = 1024, "float16"
    # Enough for 64 environments, too little for a rollout of 24 MiB.
    small = Machine(10 << 20, 2, 2)
    assert "24.0 MiB" in str(only(cfg, machine=small))
    assert "points.dtype" not in str(only(cfg, machine=small))


def test_features_and_appended_points_count_as_the_sensor_counts_them() -> None:
    cfg = reach_cfg()
    points = cfg.scene.points
    points.features = ["rgb", "normals", "segmentation", "one_hot", "camera"]
    points.classes = ("cube", "table")
    points.append = (GivenPointsCfg(num_points=6),)
    points.num_points, points.dtype = 58, "float32"
    sensor: Any = SimpleNamespace(cfg=points)
    channels = max(part.stop for part in PointCloud.channels.__get__(sensor).values())
    size = PLAN.samples_per_update * (58 + 6) * channels * 4
    assert only(cfg, machine=Machine(size - 1, 2, 2)).severity == "error"
    assert only(cfg, machine=Machine(size, 2, 2)).severity == "warning"


def test_depth_images_name_the_camera() -> None:
    cfg = reach_cfg(obs="depth")
    size = PLAN.samples_per_update * cfg.scene.camera.width * cfg.scene.camera.height * 4
    finding = only(cfg, machine=Machine(size - 1, 2, 2))
    assert (finding.severity, finding.setting) == ("error", "env.scene.camera.width")
    assert check(cfg, machine=Machine(2 * size, 2, 2)) == []


def test_the_state_is_small() -> None:
    # As much as 64 environments take at the least.
    assert check(reach_cfg(obs="state"), machine=Machine(64 * 100_000, 2, 2)) == []


# Colliders


def mesh_asset(faces: int, props: Any) -> AssetBaseCfg:
    mesh = sim_utils.MeshFileCfg.TriangleMeshCfg(np.zeros((3, 3)), np.zeros((faces, 3), int))
    spawn = sim_utils.MeshFileCfg(mesh=mesh, collision_props=UsdPhysicsCollisionCfg(), mesh_collision_props=props)
    return AssetBaseCfg(prim_path="{ENV_REGEX_NS}/Part", spawn=spawn)


@pytest.mark.parametrize("props", [None, [UsdPhysicsMeshCollisionCfg()], PhysxSDFMeshCfg()])
def test_detailed_colliders_give_a_warning(props: Any) -> None:
    cfg = reach_cfg()
    cfg.scene.part = mesh_asset(10_001, props)
    finding = only(cfg)
    assert (finding.severity, finding.setting) == ("warning", "env.scene.part.spawn.mesh_collision_props")
    assert "10001 triangles" in str(finding)
    assert "convexHull" in str(finding)


def test_hulls_small_meshes_and_meshes_without_collisions_do_not() -> None:
    cfg = reach_cfg()
    cfg.scene.hull = mesh_asset(10_001, [UsdPhysicsMeshCollisionCfg(), PhysxConvexHullCfg()])
    cfg.scene.small = mesh_asset(10_000, None)
    cfg.scene.visual = mesh_asset(10_001, None)
    cfg.scene.visual.spawn.collision_props = None
    assert check(cfg) == []


def test_a_mesh_file_is_counted_and_one_that_is_elsewhere_is_not(tmp_path) -> None:
    file = tmp_path / "mesh.obj"
    vertices = "".join(f"v {x} {y} 0\n" for x in range(72) for y in range(72))
    quads = [(72 * x + y + 1, 72 * x + y + 2, 72 * x + y + 74, 72 * x + y + 73) for x in range(71) for y in range(71)]
    file.write_text(vertices + "".join("f {} {} {} {}\n".format(*quad) for quad in quads))
    cfg = reach_cfg()
    cfg.scene.part = mesh_asset(0, None)
    cfg.scene.part.spawn.mesh = str(file)
    assert f"{2 * 71 * 71} triangles" in str(only(cfg))
    cfg.scene.part.spawn.mesh = "https://example.invalid/mesh.obj"
    assert check(cfg) == []


def test_the_colliders_of_a_usd_file_are_counted(tmp_path, installed) -> None:
    installed()
    stage = Usd.Stage.CreateNew(str(tmp_path / "part.usda"))
    root: Any = UsdGeom.Xform.Define(stage, "/Part").GetPrim()
    stage.SetDefaultPrim(root)
    prims: dict[str, Any] = {}
    for name, quads in (("hull", 9000), ("off", 9000), ("visual", 9000), ("mesh", 5000)):
        mesh: Any = UsdGeom.Mesh.Define(stage, f"/Part/{name}")
        mesh.CreateFaceVertexCountsAttr([4] * quads)
        prims[name] = mesh.GetPrim()
        if name != "visual":
            UsdPhysics.CollisionAPI.Apply(prims[name])
    apply: Any = UsdPhysics.MeshCollisionAPI.Apply
    apply(prims["hull"]).CreateApproximationAttr("convexHull")
    collision: Any = UsdPhysics.CollisionAPI
    collision(prims["off"]).CreateCollisionEnabledAttr(False)
    stage.Save()
    cfg = reach_cfg()
    spawn = sim_utils.UsdFileCfg(usd_path=str(tmp_path / "part.usda"))
    cfg.scene.part = AssetBaseCfg(prim_path="{ENV_REGEX_NS}/Part", spawn=spawn)
    assert check(cfg) == []
    apply(prims["mesh"]).GetPrim()
    UsdGeom.Mesh(prims["mesh"]).GetFaceVertexCountsAttr().Set([4] * 5001)
    stage.Save()
    finding = only(cfg)
    assert (finding.severity, finding.setting) == ("warning", "env.scene.part.spawn.usd_path")
    assert "10002 triangles" in str(finding)


def test_colliders_made_of_visual_meshes_give_a_warning() -> None:
    cfg = reach_cfg()
    spawn: Any = sim_utils.UrdfFileCfg(asset_path="arm.urdf", fix_base=True, joint_drive=None)
    cfg.scene.part = AssetBaseCfg(prim_path="{ENV_REGEX_NS}/Part", spawn=spawn)
    assert check(cfg) == []
    cfg.scene.part.spawn.collision_from_visuals = True
    assert only(cfg).setting == "env.scene.part.spawn.collision_from_visuals"


# Threads


def test_more_threads_than_cores_give_a_warning() -> None:
    assert check(reach_cfg(), machine=Machine(16 << 30, 4, 4)) == []
    finding = only(reach_cfg(), machine=Machine(16 << 30, 32, 4))
    assert (finding.severity, finding.setting) == ("warning", "OMP_NUM_THREADS")
    assert "OMP_NUM_THREADS=4" in str(finding)


# What becomes of findings


def test_all_errors_are_in_one_message(installed) -> None:
    installed()
    cfg = reach_cfg(16_384)
    cfg.scene.camera.renderer_cfg = IsaacRtxRendererCfg()
    for trial in (False, True):
        with pytest.raises(ConfigError, match=r"renderer_cfg is the renderer isaac_rtx(?s:.*)num_envs=16384"):
            check_run(cfg, PLAN, MACHINE, trial=trial)


def test_warnings_keep_nothing_from_running() -> None:
    (warning,) = check_run(reach_cfg(), PLAN, Machine(16 << 30, 3, 2), trial=False)
    assert warning.startswith("torch uses 3 threads on 2 usable CPU cores")
    assert check_run(reach_cfg(), PLAN, MACHINE, trial=False) == []


def test_a_trial_with_too_many_environments_bounds_the_search_instead_of_ending_it(installed) -> None:
    installed(*INSTALLED)
    cfg = reach_cfg(16_384)
    cfg.scene.camera.renderer_cfg = OVRTXRendererCfg()
    with pytest.raises(ConfigError, match="num_envs=16384"):
        check_run(cfg, PLAN, MACHINE, trial=False)
    with pytest.raises(MemoryError) as raised:
        check_run(cfg, PLAN, MACHINE, trial=True)
    outcome, line = classify_exit(1, "".join(traceback.format_exception(raised.value)))
    assert outcome is Outcome.OOM
    assert "num_envs=16384" in line


@pytest.mark.parametrize(("trial", "error"), [(False, ConfigError), (True, MemoryError)])
def test_a_session_is_refused_before_a_simulator_starts(tmp_path, trial: bool, error: type[Exception]) -> None:
    config = compose(["device=cpu", "physics=newton_mjwarp"])
    watch = ProbeWatch("cpu", tmp_path / "phase") if trial else None
    session = open_session(config, 2_000_000, "reach", tmp_path, watch)
    with pytest.raises(error, match=r"env\.scene\.camera\.width=48"), session:
        pytest.fail("a simulator was started")
    assert {path.name for path in tmp_path.iterdir()} == ({"phase"} if trial else set())


@pytest.mark.parametrize(("trial", "error"), [(False, ConfigError), (True, MemoryError)])
def test_a_replay_that_does_not_fit_is_refused(trial: bool, error: type[Exception]) -> None:
    cfg = reach_cfg()
    machine = Machine(1 << 30, 2, 2)
    most = (1 << 30) // kept_bytes(cfg)
    assert check_run(cfg, PLAN, machine, trial=trial, replay_samples=most) == []
    with pytest.raises(error, match=rf"^replay_samples={most + 1}: .* Use at most replay_samples={most}, or num_envs"):
        check_run(cfg, PLAN, machine, trial=trial, replay_samples=most + 1)
    assert check_run(cfg, None, machine, trial=trial, replay_samples=most + 1) == [], "nobody learns from it"


def test_a_replay_keeps_clouds_and_images_as_float16() -> None:
    cfg = reach_cfg()
    cfg.scene.points.dtype = "float32"
    assert kept_bytes(cfg) == 2 * 3 * cfg.scene.points.num_points
    cfg.obs = "depth"
    assert kept_bytes(cfg) == 2 * cfg.scene.camera.width * cfg.scene.camera.height
    cfg.obs = "state"
    assert kept_bytes(cfg) == 0


def test_the_machine_is_seen_as_it_is() -> None:
    machine = Machine.here("cpu")
    assert machine.free_bytes > 1 << 20
    assert machine.cores >= 1
    assert machine.threads >= 1
    assert check(reach_cfg(), plan_batch(64, 4096, 1024), machine) == [
        finding for finding in check(reach_cfg(), machine=machine) if finding.setting == "OMP_NUM_THREADS"
    ]
