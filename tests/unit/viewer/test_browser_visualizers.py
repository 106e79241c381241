# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's viser listens where the user said, and nowhere else."""

import socket
from types import SimpleNamespace

import pytest

pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from isaaclab_visualizers.viser import ViserVisualizerCfg

from isaaclab_pc.viewer.browser_visualizers import serve_viser
from tests.waiting import free_ports


@pytest.mark.parametrize("in_a_list", [False, True])
def test_the_tasks_own_settings_stay_but_for_the_address(in_a_list):
    (port,) = free_ports(1)
    own = ViserVisualizerCfg(port=port)
    sim = SimpleNamespace(visualizer_cfgs=[own] if in_a_list else own)
    serve_viser("127.0.0.2", sim)
    assert sim.visualizer_cfgs == [own]
    assert (own.port, own.bind_address) == (port, "127.0.0.2")


def test_without_settings_of_the_task_it_listens_on_this_machine(capsys):
    sim = SimpleNamespace(visualizer_cfgs=None)
    serve_viser("127.0.0.1", sim)
    assert [cfg.bind_address for cfg in sim.visualizer_cfgs] == ["127.0.0.1"]


def test_a_port_that_is_taken_is_passed_over(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        sim = SimpleNamespace(visualizer_cfgs=ViserVisualizerCfg(port=port))
        serve_viser("127.0.0.1", sim)
    (cfg,) = sim.visualizer_cfgs
    assert cfg.port > port
    said = capsys.readouterr().out
    assert f"note: port {port} is taken, {cfg.port} is the next free one" in said
    assert f"visualizer=viser: watch at http://localhost:{cfg.port}" in said
