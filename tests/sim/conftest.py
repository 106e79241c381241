# SPDX-License-Identifier: BSD-3-Clause
"""Real environments for the tests, on the physics backend of this pytest process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import pytest

import isaaclab_pc.tasks  # noqa: F401

BACKENDS = [pytest.param("newton_mjwarp"), pytest.param("ovphysx", marks=pytest.mark.physx)]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def make_env(backend: str) -> Iterator[Callable]:
    """Build ``task`` on the backend; ``adjust`` may change its config. Closed at the module's end."""
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import load_cfg_from_registry

    from isaaclab_pc.physics import PhysicsSettings, apply_physics

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
