# SPDX-License-Identifier: BSD-3-Clause
"""One physics vocabulary, mapped to each backend's fields. Starts no simulator."""

import math
from operator import attrgetter
from typing import Any

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics import backends
from isaaclab_pc.physics.apply import PRESETS, apply_physics, check_time_steps
from isaaclab_pc.physics.backends import resolve_backend
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend, Preset
from isaaclab_pc.tasks.peg_insert.peg_insert_env_cfg import PegInsertEnvCfg
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Set which physics packages seem installed; what they load of the system seems to be there."""
    monkeypatch.setattr(backends, "OVPHYSX_LIBRARIES", {})

    def install(*modules: str) -> None:
        monkeypatch.setattr(backends, "is_installed", lambda module: module in modules)

    return install


def reach_cfg() -> Any:
    cfg = ReachEnvCfg()
    cfg.sim.device = "cpu"
    return cfg


@pytest.mark.parametrize(
    ("backend", "device", "modules", "expected"),
    [
        ("auto", "cpu", ("ovphysx",), "ovphysx"),
        ("auto", "cpu", (), "newton_mjwarp"),
        ("auto", "cuda:0", ("ovphysx",), "newton_mjwarp"),
        ("physx", "cpu", ("ovphysx",), "ovphysx"),
        ("physx", "cuda:0", ("ovphysx", "isaacsim"), "isaacsim_physx"),
        ("newton_mjwarp", "cpu", (), "newton_mjwarp"),
    ],
)
def test_the_backend_follows_selector_device_and_installation(
    installed, backend: str, device: str, modules: tuple[str, ...], expected: str
) -> None:
    installed(*modules)
    assert resolve_backend(backend, device) == expected


@pytest.mark.parametrize(
    ("backend", "needed"),
    [
        ("physx", r"isaaclab_pc\[ovphysx\].*docs/installation\.md"),
        ("isaacsim_physx", r"docs/installation\.md"),
        ("ovphysx", r"isaaclab_pc\[ovphysx\]"),
    ],
)
def test_a_missing_backend_says_what_to_install_and_what_works(installed, backend: str, needed: str) -> None:
    installed()
    with pytest.raises(ConfigError, match=f"{needed}.*physics=newton_mjwarp"):
        resolve_backend(backend, "cpu")


@pytest.mark.parametrize("backend", ["auto", "ovphysx"])
def test_system_libraries_that_ovphysx_lacks_are_named_before_it_starts(
    installed, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("ovphysx")
    monkeypatch.setitem(backends.OVPHYSX_LIBRARIES, "libNoSuch.so.1", "libnosuch1")
    with pytest.raises(ConfigError, match=r"libNoSuch\.so\.1.*libnosuch1.*physics=newton_mjwarp"):
        resolve_backend(backend, "cpu")
    assert resolve_backend("newton_mjwarp", "cpu") == "newton_mjwarp"


@pytest.mark.parametrize(("given", "decimation"), [({"dt": 1 / 240}, 8), ({"dt": 0.01, "decimation": 5}, 5)])
def test_the_control_rate_stays_when_dt_changes_unless_the_decimation_is_given(given: dict, decimation: int) -> None:
    cfg = reach_cfg()
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp", **given))
    assert (cfg.sim.dt, cfg.decimation, cfg.sim.render_interval) == (given["dt"], decimation, decimation)


def test_a_dt_that_does_not_divide_the_control_period_names_one_that_does() -> None:
    with pytest.raises(ConfigError, match=r"physics.dt=0.0111111"):
        apply_physics(reach_cfg(), PhysicsSettings(backend="newton_mjwarp", dt=0.01))


def test_newton_gets_substeps_iterations_contacts_and_constraints() -> None:
    cfg = reach_cfg()
    given: dict[str, Any] = {"substeps": 3, "position_iterations": 17, "contacts": 37, "constraints": 411}
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp", **given))
    solver = cfg.sim.physics.solver_cfg
    assert [cfg.sim.physics.num_substeps, solver.iterations, solver.nconmax, solver.njmax] == [*given.values()]


@pytest.mark.parametrize(
    ("contacts", "num_envs", "patches", "points"), [(30, 8192, 245_760, 2**23), (8, 64, 5 * 2**15, 2**23)]
)
def test_physx_on_a_gpu_gets_room_for_the_contacts_of_all_environments_and_never_less_than_before(
    contacts: int, num_envs: int, patches: int, points: int
) -> None:
    cfg = reach_cfg()
    cfg.sim.device = "cuda:0"
    cfg.scene.num_envs = num_envs
    apply_physics(cfg, PhysicsSettings(backend="ovphysx", contacts=contacts))
    assert cfg.sim.physics.gpu_max_rigid_patch_count == patches
    assert cfg.sim.physics.gpu_max_rigid_contact_count == points


def test_physx_gets_iterations_on_every_variant_of_an_object() -> None:
    cfg: Any = PegInsertEnvCfg()
    cfg.sim.device = "cpu"
    apply_physics(cfg, PhysicsSettings(backend="ovphysx", position_iterations=3))
    pegs = cfg.scene.peg.spawn.assets_cfg
    counts = {getattr(f, "solver_position_iteration_count", None) for peg in pegs for f in peg.rigid_props}
    assert counts - {None} == {3}


@pytest.mark.parametrize(
    ("backend", "values", "alternative"),
    [
        ("newton_mjwarp", {"velocity_iterations": 1}, "physics.position_iterations"),
        ("ovphysx", {"substeps": 2}, "physics.dt"),
        ("ovphysx", {"constraints": 200}, "physics.contacts"),
        ("ovphysx", {"contacts": 60}, "physics=newton_mjwarp"),
    ],
)
def test_what_a_backend_lacks_is_an_error_naming_the_alternative(
    backend: Backend, values: dict, alternative: str
) -> None:
    with pytest.raises(ConfigError, match=alternative):
        apply_physics(reach_cfg(), PhysicsSettings(backend=backend, **values))


@pytest.mark.parametrize("dt", [0.0, -0.01, 0.2, float("nan")])
def test_a_step_that_no_solver_can_take_is_refused_also_in_a_tasks_own_field(dt: float) -> None:
    cfg = reach_cfg()
    check_time_steps(cfg)
    cfg.sim.dt = dt
    with pytest.raises(ConfigError, match=rf"env\.sim\.dt={dt}"):
        check_time_steps(cfg)


@pytest.mark.parametrize("field", ["decimation", "sim.physics.num_substeps", "sim.physics.solver_cfg.iterations"])
def test_a_tasks_own_counts_are_at_least_one(field: str) -> None:
    cfg = reach_cfg()
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp"))
    check_time_steps(cfg)
    owner, _, name = field.rpartition(".")
    setattr(attrgetter(owner)(cfg) if owner else cfg, name, 0)
    with pytest.raises(ConfigError, match=rf"env\.{field}=0"):
        check_time_steps(cfg)


@pytest.mark.parametrize(("backend", "preset"), [(backend, name) for backend in PRESETS for name in PRESETS[backend]])
def test_a_preset_reaches_the_fields_of_its_backend_and_keeps_the_control_rate(
    backend: Backend, preset: Preset
) -> None:
    cfg, values = reach_cfg(), PRESETS[backend][preset]
    control_period = cfg.sim.dt * cfg.decimation
    apply_physics(cfg, PhysicsSettings(backend=backend, preset=preset))
    assert cfg.sim.dt * cfg.decimation == pytest.approx(control_period)
    assert cfg.sim.dt == pytest.approx(values["dt"])
    if backend == "newton_mjwarp":
        assert cfg.sim.physics.num_substeps == values["substeps"]
        assert cfg.sim.physics.solver_cfg.iterations == values["position_iterations"]
    else:
        robot = cfg.scene.robot.spawn.articulation_props[0]
        assert robot.solver_position_iteration_count == values["position_iterations"]


def test_a_preset_at_another_control_rate_takes_the_next_smaller_step_that_divides_it() -> None:
    cfg = reach_cfg()
    cfg.sim.dt, cfg.decimation = 0.04, 1
    apply_physics(cfg, PhysicsSettings(backend="ovphysx", preset="balanced"))
    steps = math.ceil(0.04 / PRESETS["ovphysx"]["balanced"]["dt"])
    assert (cfg.decimation, cfg.sim.dt) == (steps, pytest.approx(0.04 / steps))


def test_what_is_given_wins_over_the_preset() -> None:
    cfg = reach_cfg()
    given = PhysicsSettings(backend="newton_mjwarp", preset="robust", substeps=3, dt=1 / 90)
    apply_physics(cfg, given)
    assert (cfg.sim.physics.num_substeps, cfg.sim.dt, cfg.decimation) == (3, 1 / 90, 3)
    assert cfg.sim.physics.solver_cfg.iterations == PRESETS["newton_mjwarp"]["robust"]["position_iterations"]

    # A decimation beside a preset keeps the control rate.
    cfg = reach_cfg()
    period = cfg.sim.dt * cfg.decimation
    apply_physics(cfg, PhysicsSettings(backend="ovphysx", preset="robust", decimation=8))
    assert (cfg.decimation, cfg.sim.dt) == (8, pytest.approx(period / 8))


@pytest.mark.parametrize(
    ("backend", "preset", "message"),
    [
        ("isaacsim_physx", "robust", r"preset=robust.*isaacsim_physx.*physics\.position_iterations.*physics=ovphysx"),
        ("newton_mjwarp", "fast", r"preset=fast.*newton_mjwarp.*preset=balanced.*preset=robust"),
    ],
)
def test_a_preset_that_a_backend_lacks_names_what_to_give(installed, backend: Any, preset: Any, message: str) -> None:
    installed("isaacsim")
    with pytest.raises(ConfigError, match=message):
        apply_physics(reach_cfg(), PhysicsSettings(backend=backend, preset=preset))
