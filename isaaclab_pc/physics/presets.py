# SPDX-License-Identifier: BSD-3-Clause
"""Physics presets that tasks put into ``cfg.sim.physics``, one per backend."""

from typing import Any

import warp as wp
from isaaclab.envs import DirectRLEnvCfg
from isaaclab.physics import PhysicsCfg, PhysxAutoCfg
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
from isaaclab_newton.renderers import NewtonWarpRendererCfg
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg
from isaaclab_tasks.utils import PresetCfg

from isaaclab_pc.utils.packages import is_installed


@configclass
class PhysicsPresetsCfg(PresetCfg):
    """One preset per backend, selected by ``physics=<name>`` (also under Isaac Lab's own ``isaaclab train``).

    The default is what runs everywhere and is fastest on a CPU: ``ovphysx`` where it is installed, else Newton.
    """

    ovphysx: PhysicsCfg = OvPhysxCfg()
    newton_mjwarp: PhysicsCfg = NewtonCfg(
        # A solver step of 1/240 s for sim.dt 1/60 s: coarser ones lose grasped objects.
        num_substeps=4,
        solver_cfg=MJWarpSolverCfg(
            njmax=200, nconmax=60, iterations=10, ls_iterations=50, cone="pyramidal", integrator="implicitfast"
        ),
    )
    isaacsim_physx: PhysicsCfg = PhysxCfg(bounce_threshold_velocity=0.2)
    physx: PhysicsCfg = PhysxAutoCfg(isaacsim_physx=isaacsim_physx, ovphysx=ovphysx)
    default: PhysicsCfg = ovphysx if is_installed("ovphysx") else newton_mjwarp


def newton_presets(physics: Any) -> list[Any]:
    """Return the presets of a :class:`PhysicsPresetsCfg` that run Newton with MuJoCo Warp, for a task to change."""
    return [preset for preset in (physics.newton_mjwarp, physics.default) if isinstance(preset, NewtonCfg)]


def prepare_for_device(cfg: DirectRLEnvCfg) -> None:
    """Turn off what needs CUDA when ``cfg.sim.device`` is the CPU; call it before the simulation is built.

    CUDA graphs are disabled for physics and cameras. Pinned host memory, which ovphysx asks Warp for, becomes pageable:
    a machine without a CUDA driver has none.
    """
    if not str(cfg.sim.device).startswith("cpu"):
        return

    if isinstance(cfg.sim.physics, NewtonCfg):
        cfg.sim.physics.use_cuda_graph = False
    for sensor in vars(cfg.scene).values():
        if isinstance(sensor, CameraCfg) and isinstance(sensor.renderer_cfg, NewtonWarpRendererCfg):
            sensor.renderer_cfg.use_cuda_graph = False

    wp.init()
    if not wp.is_cuda_available():
        cpu: Any = wp.get_device("cpu")
        cpu.pinned_allocator = cpu.default_allocator
