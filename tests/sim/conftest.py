# SPDX-License-Identifier: BSD-3-Clause
"""Real environments for the tests, on the physics backend of this pytest process."""

import functools
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
    """Build a task on the backend, in place of the environment before it; closed at the module's end.

    ``fields`` are values of its config by their paths (``scene.points.dtype``); ``adjust`` may change it further.
    """
    from isaaclab_tasks.utils import load_cfg_from_registry

    from isaaclab_pc.physics import apply_physics
    from isaaclab_pc.settings import PhysicsSettings

    with ExitStack() as stack:

        def make(task: str, num_envs: int, adjust: Callable[[Any], object] | None = None, **fields: Any) -> Any:
            stack.close()
            cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
            _set(cfg, num_envs, fields)
            apply_physics(cfg, PhysicsSettings(backend=backend))
            if adjust is not None:
                adjust(cfg)
            return _open(task, cfg, stack)

        yield make


@pytest.fixture(scope="module", params=["Isaac-Cartpole-Direct", "Isaac-Cartpole"])
def make_cartpole(request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Build Isaac Lab's cart-pole on Newton, direct and then manager-based; closed before the next one.

    Its robot and ground would come from NVIDIA's asset server; here, they are files beside this one.
    """
    import isaaclab_tasks  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from isaaclab_tasks.utils import resolve_task_config

    assets = Path(__file__).parent / "assets"
    with ExitStack() as stack:

        def make(num_envs: int, **fields: Any) -> Any:
            task = request.param
            cfg: Any = resolve_task_config(task, "rsl_rl_cfg_entry_point", overrides=["physics=newton_mjwarp"])[0]
            _set(cfg, num_envs, fields)
            cfg.scene.ground.spawn.usd_path = str(assets / "ground.usda")
            robot = cfg.scene.cartpole if task.endswith("Direct") else cfg.scene.robot
            robot.spawn.usd_path = str(assets / "cartpole.usda")
            return _open(task, cfg, stack)

        yield make


def _set(cfg: Any, num_envs: int, fields: dict[str, Any]) -> None:
    cfg.sim.device, cfg.scene.num_envs, cfg.seed = "cpu", num_envs, 11
    for name, value in fields.items():
        *path, last = name.split(".")
        setattr(functools.reduce(getattr, path, cfg), last, value)


def _open(task: str, cfg: Any, stack: ExitStack) -> Any:
    from isaaclab.app import launch_simulation

    stack.enter_context(launch_simulation(cfg, {"device": "cpu", "headless": True}))
    env = gym.make(task, cfg=cfg)
    stack.callback(env.close)
    return env.unwrapped
