# SPDX-License-Identifier: BSD-3-Clause
"""Visualizers in a browser listen where the user said, and nowhere else."""

import socket
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

pytest.importorskip("rerun", reason="needs rerun: uv pip install -c constraints.txt -e '.[viz]'")
pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from isaaclab_visualizers.rerun import RerunVisualizerCfg
from isaaclab_visualizers.viser import ViserVisualizerCfg

from isaaclab_pc.viz.rerun_recording import RerunRecording
from isaaclab_pc.workers.browser_visualizers import listening_on, rerun_server
from tests.unit.viz import scenes
from tests.unit.viz.recordings import received
from tests.waiting import free_ports


def listening_addresses(ports):
    me = psutil.Process()
    connections = [one for process in (me, *me.children(recursive=True)) for one in process.connections()]
    return {
        (one.laddr.port, one.laddr.ip)
        for one in connections
        if one.status == psutil.CONN_LISTEN and one.laddr.port in ports
    }


def test_reruns_server_listens_on_this_machine_alone_and_ends():
    grpc_port, web_port = free_ports(2)
    sim = SimpleNamespace(visualizer_cfgs=[RerunVisualizerCfg(grpc_port=grpc_port, web_port=web_port)])
    with listening_on("127.0.0.1", sim, ["rerun"]):
        here = {(grpc_port, "127.0.0.1"), (web_port, "127.0.0.1")}
        assert listening_addresses([grpc_port, web_port]) == here
        # Isaac Lab looks for a server there, and sends to it.
        assert sim.visualizer_cfgs[0].bind_address == "127.0.0.1"
    assert listening_addresses([grpc_port, web_port]) == set()


def test_page_and_frames_have_two_ports_where_both_are_to_have_the_same():
    (port,) = free_ports(1)
    with rerun_server("127.0.0.1", port, port) as server:
        assert server.web_port == port
        assert server.grpc_port != port
        assert {number for number, _ in listening_addresses(server[2:])} == {port, server.grpc_port}


def test_what_is_drawn_reaches_who_looks_on_later(tmp_path):
    grpc_port, web_port = free_ports(2)
    with rerun_server("127.0.0.1", grpc_port, web_port) as server:
        recording = RerunRecording(server.address, scenes.layout(), color="camera")
        for step in range(3):
            recording.write(scenes.frame(step))
        points = received(server.address, tmp_path / "seen.rrd", "env_1/cloud", "Points3D:positions", steps=3)
        page = urllib.request.urlopen(f"http://127.0.0.1:{web_port}").read()
        recording.close()
    assert sorted(points) == [0, 1, 2]
    assert np.allclose(points[2], np.array([2.0, 0.0, 0.25]) + scenes.ORIGINS[1])
    assert b"<html" in page


def test_reruns_server_dies_with_the_process_that_started_it():
    ports = free_ports(2)
    program = (
        "import time\n"
        "from isaaclab_pc.workers.browser_visualizers import rerun_server\n"
        f"with rerun_server('127.0.0.1', {ports[0]}, {ports[1]}):\n"
        "    print('serves', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(line == "serves\n" for line in lines)
        servers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    _, alive = psutil.wait_procs(servers, timeout=10)
    for server in alive:
        server.kill()
    assert not alive


def test_beside_servers_of_others_rerun_has_ports_of_its_own_and_says_so(capsys):
    with socket.create_server(("127.0.0.1", 0)) as grpc, socket.create_server(("127.0.0.1", 0)) as web:
        taken = [server.getsockname()[1] for server in (grpc, web)]
        sim = SimpleNamespace(visualizer_cfgs=RerunVisualizerCfg(grpc_port=taken[0], web_port=taken[1]))
        with listening_on("127.0.0.1", sim, ["rerun"]):
            (cfg,) = sim.visualizer_cfgs
            here = [cfg.grpc_port, cfg.web_port]
            assert not set(here) & set(taken)
            assert {port for port, _ in listening_addresses(here)} == set(here)
        grpc.settimeout(0.1)
        with pytest.raises(TimeoutError):
            grpc.accept()

    said = capsys.readouterr().out
    for port, free in zip(taken, here, strict=True):
        assert f"note: port {port} is taken, {free} is the next free one" in said
    page = f"http://localhost:{here[1]}/?url=rerun%2Bhttp://localhost:{here[0]}/proxy"
    assert f"visualizer=rerun: watch at {page}" in said


def test_beside_a_page_of_others_viser_has_a_port_of_its_own_and_says_so(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        sim = SimpleNamespace(visualizer_cfgs=ViserVisualizerCfg(port=port))
        with listening_on("127.0.0.1", sim, ["viser"]):
            (cfg,) = sim.visualizer_cfgs
    assert cfg.port > port
    said = capsys.readouterr().out
    assert f"note: port {port} is taken, {cfg.port} is the next free one" in said
    assert f"visualizer=viser: watch at http://localhost:{cfg.port}" in said


def test_viser_gets_the_address_and_the_tasks_own_settings_stay():
    (port,) = free_ports(1)
    sim = SimpleNamespace(visualizer_cfgs=[ViserVisualizerCfg(port=port)])
    with listening_on("127.0.0.2", sim, ["viser"]):
        (cfg,) = sim.visualizer_cfgs
        assert (cfg.port, cfg.bind_address) == (port, "127.0.0.2")


def test_without_such_visualizers_nothing_is_configured():
    sim = SimpleNamespace(visualizer_cfgs=None)
    with listening_on("127.0.0.1", sim, ["newton_gl"]):
        assert sim.visualizer_cfgs == []


def test_who_set_nothing_listens_on_this_machine():
    sim = SimpleNamespace(visualizer_cfgs=None)
    with listening_on("127.0.0.1", sim, ["viser"]):
        assert [cfg.bind_address for cfg in sim.visualizer_cfgs] == ["127.0.0.1"]
