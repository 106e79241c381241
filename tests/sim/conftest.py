# SPDX-License-Identifier: BSD-3-Clause
"""Real environments for the tests, on the physics backend of this pytest process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.settings.physics import Backend

BACKENDS = [pytest.param("newton_mjwarp"), pytest.param("ovphysx", marks=pytest.mark.physx)]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return request.param


@pytest.fixture(scope="module")
def make_env(backend: Backend) -> Iterator[Callable]:
    """Build ``task`` on the backend; ``adjust`` may change its config. Closed at the module's end."""
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import load_cfg_from_registry

    from isaaclab_pc.physics import apply_physics
    from isaaclab_pc.settings import PhysicsSettings

    with ExitStack() as stack:

        def make(task: str, num_envs: int, adjust: Callable | None = None):
            cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
            cfg.sim.device = "cpu"
            cfg.scene.num_envs = num_envs
            cfg.seed = 11
            apply_physics(cfg, PhysicsSettings(backend=backend))
            if adjust is not None:
                adjust(cfg)
            stack.enter_context(launch_simulation(cfg, {"device": "cpu", "headless": True}))
            env = gym.make(task, cfg=cfg)
            stack.callback(env.close)
            return env.unwrapped

        yield make


@pytest.fixture(scope="module", params=["Isaac-Cartpole-Direct", "Isaac-Cartpole"])
def make_cartpole(request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Build Isaac Lab's cart-pole on Newton, direct and then manager-based; closed before the next one.

    Its robot and ground would come from NVIDIA's asset server; here, they are files beside this one.
    """
    import isaaclab_tasks  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import resolve_task_config

    assets = Path(__file__).parent / "assets"
    with ExitStack() as stack:

        def make(num_envs: int, **fields: Any) -> Any:
            task = request.param
            cfg: Any = resolve_task_config(task, "rsl_rl_cfg_entry_point", overrides=["physics=newton_mjwarp"])[0]
            cfg.sim.device, cfg.scene.num_envs, cfg.seed = "cpu", num_envs, 11
            for name, value in fields.items():
                setattr(cfg, name, value)
            cfg.scene.ground.spawn.usd_path = str(assets / "ground.usda")
            robot = cfg.scene.cartpole if task.endswith("Direct") else cfg.scene.robot
            robot.spawn.usd_path = str(assets / "cartpole.usda")
            stack.enter_context(launch_simulation(cfg, {"device": "cpu", "headless": True}))
            env = gym.make(task, cfg=cfg)
            stack.callback(env.close)
            return env

        yield make
