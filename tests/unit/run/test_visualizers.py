# SPDX-License-Identifier: BSD-3-Clause
"""What visualizers need, checked before a simulator starts."""

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.visualizers import VISUALIZERS, check_host, check_visualizers


@pytest.fixture
def display(has_visualizers, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")


def test_the_names_are_isaac_labs():
    from isaaclab.visualizers import visualizer_cfg

    assert {*VISUALIZERS, "rerun"} == set(visualizer_cfg._VISUALIZER_TYPES), "viser shows the same as rerun"


@pytest.mark.parametrize(
    ("name", "install"),
    [
        ("viser", r"viser, .* pip install 'isaaclab_pc\[viz\]'"),
        ("kit", "isaacsim, .* Isaac Sim"),
        ("newton_rtx", r"ovrtx, .* pip install 'isaaclab\[ovrtx\]'"),
    ],
)
@pytest.mark.usefixtures("display")
def test_a_missing_package_says_what_to_install(has_visualizers, name, install):
    has_visualizers("newton_gl")
    with pytest.raises(ConfigError, match=rf"^visualizer={name} .*{install}"):
        check_visualizers(["newton_gl", name], "newton_mjwarp")


@pytest.mark.parametrize("name", ["kit", "newton_gl", "newton_rtx"])
def test_a_window_needs_a_display(has_visualizers, monkeypatch, name):
    has_visualizers(name, "viser")
    with pytest.raises(ConfigError, match=rf"^visualizer={name} .*DISPLAY.*visualizer=viser"):
        check_visualizers(["viser", name], "newton_mjwarp")
    monkeypatch.setenv("DISPLAY", ":0")
    check_visualizers([name], "newton_mjwarp")


@pytest.mark.parametrize(
    ("names", "backend", "message"),
    [
        (["kit"], "ovphysx", "^visualizer=kit: physics=ovphysx .* physics=newton_mjwarp"),
        (["newton_rtx"], "isaacsim_physx", "^visualizer=newton_rtx .* visualizer=kit"),
        (["newton_rtx", "kit"], "newton_mjwarp", "^visualizer=newton_rtx .* visualizer=kit"),
    ],
)
@pytest.mark.usefixtures("display")
def test_what_cannot_share_a_process_is_refused(has_visualizers, names, backend, message):
    has_visualizers(*VISUALIZERS)
    with pytest.raises(ConfigError, match=message):
        check_visualizers(names, backend)
    check_visualizers(names[:1], "newton_mjwarp")


def test_an_address_of_another_machine_is_refused():
    check_host("127.0.0.1")
    check_host("0.0.0.0")
    with pytest.raises(ConfigError, match=r"^host=192\.0\.2\.1: .*127\.0\.0\.1"):
        check_host("192.0.2.1")
