# SPDX-License-Identifier: BSD-3-Clause
"""A view with its page, from the first build to the end: the panel builds the environments again."""

import io
import os
import signal
import socket

import pytest

pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.physics.apply import physx_fragments
from isaaclab_pc.run.jobs import ViewJob
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.terminal.screen import Lines, use
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.viewer.viser_page import ViserPage
from isaaclab_pc.workers.view import view

pytestmark = [pytest.mark.sim, pytest.mark.slow]

CHANGES = {
    "points.sampler": "grid",
    "points.realism": "stereo",
    "physics.dt": "0.00833333",
    "physics.position_iterations": "12",
    "physics.velocity_iterations": "2",
}


@pytest.mark.physx
def test_the_panel_builds_again_with_what_fits_and_refuses_what_does_not(tmp_path, monkeypatch):
    settings = choose_platform(compose(["task=reach", "num_envs=2", "device=cpu", "physics=ovphysx"]))
    clouds = []
    messages = []
    built = []
    show, read_scene = ViserPage.show, SceneReader.__init__

    def remember(reader, env):
        read_scene(reader, env)
        built.append((env.point_cloud.cfg, env.physics_dt, physx_fragments(env.cfg)))

    def person(page, frame):
        """Ask for too few points, then for other points and physics, and leave."""
        show(page, frame)
        clouds.append(frame.cloud.shape)
        number = page.panel.settings["points.num_points"]
        if len(clouds) == 3:
            number.value = "0"
            page.panel.build_again()
        elif len(clouds) == 5:
            messages.append(page.panel.status.content)
            number.value = "32"
            for key, value in CHANGES.items():
                page.panel.settings[key].value = value
            page.panel.build_again()
        elif clouds[-3:] == [(2, 32, 3)] * 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ViserPage, "show", person)
    monkeypatch.setattr(SceneReader, "__init__", remember)
    stream = io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as taken, use(Lines(stream)) as screen:
        port = taken.getsockname()[1]
        code = view(ViewJob(settings, port=port), tmp_path, screen)
    text = stream.getvalue()

    assert code == 128 + signal.SIGTERM
    assert clouds[0][1] > 32
    assert clouds[-1] == (2, 32, 3)
    (before, *_), (cloud, physics_dt, fragments) = built
    assert (before.sampler, before.realism) == ("random", None)
    assert (cloud.sampler, cloud.realism is None) == ("grid", False)
    assert physics_dt == pytest.approx(1 / 120, rel=1e-5)
    iterations = {
        (part.solver_position_iteration_count, part.solver_velocity_iteration_count)
        for part in fragments
        if hasattr(part, "solver_position_iteration_count")
    }
    assert iterations == {(12, 2)}

    assert "points.num_points=0" in messages[0]
    assert f"port {port}" in text
    assert text.count("http://localhost:") == len(built) == 2
