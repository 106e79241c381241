# SPDX-License-Identifier: BSD-3-Clause
from importlib import metadata

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.workflows import requirements
from isaaclab_pc.workflows.requirements import check_isaaclab, check_physics, check_runner


@pytest.fixture
def installed(monkeypatch):
    """Make exactly these modules look installed."""

    def pretend(*modules):
        monkeypatch.setattr(requirements, "_installed", lambda module: module in modules)

    return pretend


def test_physx_is_isaac_sims_where_it_is_installed(installed):
    installed("isaacsim", "ovphysx")
    assert check_physics("physx") == ("isaacsim_physx", "")


def test_physx_without_isaac_sim_is_ovphysx_and_says_so(installed):
    installed("ovphysx")
    backend, note = check_physics("physx")
    assert backend == "ovphysx"
    assert "isaaclab_pc[isaacsim]" in note


def test_physx_without_any_physx_says_what_to_install_and_what_works(installed):
    installed()
    with pytest.raises(ConfigError, match=r"isaaclab_pc\[ovphysx\].*isaacsim.*newton_mjwarp works"):
        check_physics("physx")


def test_isaac_sims_physx_without_it_names_what_works(installed):
    installed("ovphysx")
    with pytest.raises(ConfigError, match=r"needs Isaac Sim.*physics=ovphysx.*physics=newton_mjwarp work\."):
        check_physics("isaacsim_physx")
    installed()
    with pytest.raises(ConfigError, match=r"needs Isaac Sim.*Without it, physics=newton_mjwarp works\."):
        check_physics("isaacsim_physx")


def test_ovphysx_without_it_says_what_to_install(installed):
    installed()
    with pytest.raises(ConfigError, match=r"isaaclab_pc\[ovphysx\]"):
        check_physics("ovphysx")


@pytest.mark.parametrize("backend", ["auto", "newton_mjwarp"])
def test_other_backends_need_nothing(installed, backend):
    installed()
    assert check_physics(backend) == (backend, "")


def test_a_missing_library_says_what_to_install(installed):
    installed("rsl_rl")
    check_runner("rsl_rl")
    with pytest.raises(ConfigError, match=r"pip install 'isaaclab_pc\[rl_games\]'"):
        check_runner("rl_games")


@pytest.mark.parametrize("version", ["2.3.0", "3.1.0", "4.0"])
def test_another_isaac_lab_is_refused(monkeypatch, version):
    monkeypatch.setattr(requirements.metadata, "version", lambda _: version)
    with pytest.raises(ConfigError, match=rf"Isaac Lab {version} is installed, 3\.0\.x is needed"):
        check_isaaclab()


def test_a_missing_isaac_lab_is_refused(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(requirements.metadata, "version", missing)
    with pytest.raises(ConfigError, match="not installed"):
        check_isaaclab()


def test_the_isaac_lab_of_this_installation_passes():
    check_isaaclab()
