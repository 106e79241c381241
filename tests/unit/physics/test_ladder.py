# SPDX-License-Identifier: BSD-3-Clause
"""The next setting to try when physics is unstable. Starts no simulator."""

from typing import Any

import pytest

from isaaclab_pc.physics import apply_physics, backends
from isaaclab_pc.physics.ladder import SOLVER_SETTINGS, harder, present_values
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg

TIME = {"dt": 1 / 60, "decimation": 2}
NEWTON = {**TIME, "substeps": 4, "position_iterations": 10}
PHYSX = {**TIME, "position_iterations": 8}


def climb(values: dict[str, float], backend: str) -> list[dict[str, float]]:
    """Take rung after rung to the top."""
    rungs = []
    while rung := harder(values, backend):
        assert len(rungs) < 50
        rungs.append(rung)
        values = {**values, **rung}
    return rungs


def test_newton_takes_substeps_iterations_and_dt_in_turn() -> None:
    assert climb(NEWTON, "newton_mjwarp")[:5] == [
        {"substeps": 8},
        {"position_iterations": 20},
        {"dt": 1 / 120, "decimation": 4},
        {"substeps": 16},
        {"position_iterations": 40},
    ]


@pytest.mark.parametrize("backend", ["ovphysx", "isaacsim_physx"])
def test_physx_has_no_substeps_and_halves_dt_first(backend: str) -> None:
    assert climb(PHYSX, backend)[:3] == [
        {"dt": 1 / 120, "decimation": 4},
        {"position_iterations": 16},
        {"dt": 1 / 240, "decimation": 8},
    ]


@pytest.mark.parametrize(("backend", "values"), [("newton_mjwarp", NEWTON), ("ovphysx", PHYSX)])
def test_the_control_rate_stays_and_the_ladder_ends_within_what_settings_accept(
    backend: Backend, values: dict[str, float]
) -> None:
    rungs = climb(values, backend)
    top: dict[str, Any] = dict(values)
    for rung in rungs:
        assert set(rung) <= set(SOLVER_SETTINGS)
        top.update(rung)
        assert top["dt"] * top["decimation"] == pytest.approx(1 / 30, rel=1e-12)
        PhysicsSettings(backend=backend, **top)
    assert top["dt"] >= 1 / 2000
    assert top["position_iterations"] == {"newton_mjwarp": 160, "ovphysx": 128}[backend]


def test_what_is_far_behind_comes_first() -> None:
    assert harder({**NEWTON, "position_iterations": 100}, "newton_mjwarp") == {"substeps": 8}
    assert harder({**NEWTON, "substeps": 16, "dt": 1 / 240}, "newton_mjwarp") == {"position_iterations": 20}
    assert harder({**NEWTON, "substeps": 1}, "newton_mjwarp") == {"substeps": 2}
    assert harder({**PHYSX, "position_iterations": 4}, "ovphysx") == {"position_iterations": 8}


@pytest.mark.parametrize("backend", ["newton_mjwarp", "ovphysx"])
def test_a_rung_that_is_applied_is_what_the_task_runs_with(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    monkeypatch.setattr(backends, "is_installed", lambda module: True)

    def apply(**given: Any) -> dict[str, float]:
        cfg: Any = ReachEnvCfg()
        cfg.sim.device = "cpu"
        assert apply_physics(cfg, PhysicsSettings(backend=backend, **given)) == backend
        return present_values(cfg, backend)

    present = apply()
    assert present == (NEWTON if backend == "newton_mjwarp" else PHYSX)
    given: dict[str, Any] = {}
    for _ in range(7):
        rung = harder(present, backend)
        given.update(rung)
        present = {**present, **rung}
        assert apply(**given) == present
