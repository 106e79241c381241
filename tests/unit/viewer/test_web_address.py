# SPDX-License-Identifier: BSD-3-Clause
"""Pages listen where the user said, pass over ports on which others listen, and say so."""

import re
import socket
from types import SimpleNamespace

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.viewer.web_address import free_port, host_name, serve_isaaclab_viser
from tests.waiting import free_ports


@pytest.fixture
def taken():
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_only_a_port_that_is_taken_is_passed_over_and_named(taken, host, capsys):
    port = free_port(host, taken)
    assert port > taken
    assert re.findall(r"\d+", capsys.readouterr().out) == [str(taken), str(port)]
    assert free_port(host, port) == port
    assert capsys.readouterr().out == ""
    with socket.create_server((host, port)):
        pass


def test_an_address_without_a_port_for_this_user_is_refused():
    with pytest.raises(ConfigError, match=r"port=8080 host=192\.0\.2\.1"):
        free_port("192.0.2.1", 8080)
    with socket.create_server(("127.0.0.1", 65535)), pytest.raises(ConfigError, match="port=65535"):
        free_port("127.0.0.1", 65535)


def test_a_browser_gets_a_name_that_it_can_open():
    names = {"127.0.0.1": "localhost", "0.0.0.0": socket.gethostname(), "10.0.0.7": "10.0.0.7"}
    assert {host: host_name(host) for host in names} == names


@pytest.mark.parametrize("in_a_list", [False, True])
def test_isaac_labs_viser_keeps_the_tasks_settings_but_for_the_address(capsys, in_a_list):
    pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")
    from isaaclab_visualizers.viser import ViserVisualizerCfg

    (port,) = free_ports(1)
    own = ViserVisualizerCfg(port=port)
    sim = SimpleNamespace(visualizer_cfgs=[own] if in_a_list else own)
    serve_isaaclab_viser("127.0.0.2", sim)
    assert sim.visualizer_cfgs == [own]
    assert (own.port, own.bind_address) == (port, "127.0.0.2")

    capsys.readouterr()
    bare = SimpleNamespace(visualizer_cfgs=None)
    serve_isaaclab_viser("127.0.0.1", bare)
    (cfg,) = bare.visualizer_cfgs
    assert cfg.bind_address == "127.0.0.1"
    assert f"http://localhost:{cfg.port}" in capsys.readouterr().out
