# SPDX-License-Identifier: BSD-3-Clause
"""Hydra composes one run's settings, also beside plugins of it that are broken."""

import sys

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton

from isaaclab_pc.cli.compose import compose, store_settings
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import PhysicsSettings, RunSettings
from isaaclab_pc.settings.physics import BACKENDS

REACH = "IsaacPC-Reach-Franka-Direct"


def test_composing_nothing_gives_the_defaults_of_the_schema():
    assert compose() == RunSettings(task=REACH)


def test_composing_gives_plain_values_and_the_gym_id():
    settings = compose(["task=reach", "physics=ovphysx", "physics.dt=0.01"], ["env.a=1"], ["agent.b=2"])
    assert settings.task == REACH
    assert settings.physics.backend == "ovphysx"
    assert settings.physics.dt == 0.01
    assert settings.runner == "rsl_rl"
    assert settings.env_overrides == ["env.a=1"]
    assert settings.agent_overrides == ["agent.b=2"]
    plain = settings.model_dump()
    assert yaml.safe_load(yaml.safe_dump(plain)) == plain


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_physics_option_has_all_settings_of_the_group(backend):
    composed = compose([f"physics={backend}"]).physics
    assert composed == PhysicsSettings(backend=backend)
    assert compose([f"physics.backend={backend}"]).physics == composed


def test_composing_works_beside_a_running_hydra_application():
    compose()
    with initialize_config_module("isaaclab_pc.conf", version_base="1.3"):
        assert compose(["seed=7"]).seed == 7
        assert hydra_compose("train").seed == 42


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed=-1", "^seed=-1: "),
        ("num_env=1", "num_env"),
        ("resume=${oc.env:ISAACLAB_PC_NO_SUCH_VARIABLE}", "ISAACLAB_PC_NO_SUCH_VARIABLE"),
        ("resume=${seed}", "^resume=42: "),
        ("task=${robot}", "^task=franka "),
        ("eval.seed=42", "^eval.seed=42 "),
    ],
)
def test_a_value_that_is_refused_is_refused_in_one_line(setting, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        compose([setting])
    assert "\n" not in str(refusal.value)


BROKEN = {
    "zz_python": ("def", "SyntaxError: "),
    "zz_exits": ("raise SystemExit('get a licence')", "SystemExit: get a licence"),
    "zz_raises": ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
}


@pytest.fixture
def scans_again(monkeypatch):
    """Let Hydra look for its plugins once more, and forget them afterwards."""
    # Without what composing changes in place, so that the instances from before stay as they are.
    others = {kind: one for kind, one in Singleton._instances.items() if kind not in (Plugins, GlobalHydra)}
    monkeypatch.setattr(Singleton, "_instances", others)
    store_settings.cache_clear()
    yield
    for name in [name for name in sys.modules if name.startswith("hydra_plugins.zz_")]:
        del sys.modules[name]


@pytest.fixture
def plugins(scans_again, tmp_path, monkeypatch):
    """The folder of a package of plugins."""
    folder = tmp_path / "hydra_plugins"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_broken_plugins_of_hydra_are_named_once_and_settings_compose_without_them(plugins, capsys):
    for name, (code, _) in BROKEN.items():
        (plugins / f"{name}.py").write_text(code, encoding="utf-8")
    for _ in range(2):
        assert compose(["task=reach", "seed=7"]).seed == 7
    warnings = capsys.readouterr().err.splitlines()
    for name, (_, error) in BROKEN.items():
        (warning,) = [line for line in warnings if f"hydra_plugins.{name} " in line]
        assert error in warning
    assert len(warnings) == len(BROKEN)


def test_a_signal_while_plugins_are_imported_is_no_fault_of_theirs(plugins):
    (plugins / "zz_slow.py").write_text("raise SystemExit(143)", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        store_settings()
    assert caught.value.code == 143
