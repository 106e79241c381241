# SPDX-License-Identifier: BSD-3-Clause
"""A view with its page, from the first build to the end: the panel builds the environments again."""

import io
import os
import signal
import socket

import pytest

pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.platform import choose_platform
from isaaclab_pc.terminal.screen import Lines, use
from isaaclab_pc.viz.viser_page import ViserPage
from isaaclab_pc.workers.view import ViewOptions, view

pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.mark.physx
def test_the_panel_builds_again_with_what_fits_and_refuses_what_does_not(tmp_path, monkeypatch):
    settings = choose_platform(compose(["task=reach", "num_envs=2", "device=cpu", "physics=ovphysx"]))
    settings.save(tmp_path / "config.yaml")
    clouds = []
    messages = []
    show = ViserPage.show

    def person(page, frame):
        """Ask for too few points, then for fewer, and leave."""
        show(page, frame)
        clouds.append(frame.cloud.shape)
        number = page.panel.settings["points.num_points"]
        if len(clouds) == 3:
            number.value = "0"
            page.panel.build_again()
        elif len(clouds) == 5:
            messages.append(page.panel.status.content)
            number.value = "32"
            page.panel.build_again()
        elif clouds[-3:] == [(2, 32, 3)] * 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ViserPage, "show", person)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stream = io.StringIO()
        with use(Lines(stream)) as screen:
            code = view(tmp_path / "config.yaml", ViewOptions(port=port), screen)

    assert code == 128 + signal.SIGTERM
    assert clouds[0][1] > 32
    assert clouds[-1] == (2, 32, 3)
    assert "not built again" in messages[0]
    assert "points.num_points=0: expected" in messages[0]
    text = stream.getvalue()
    assert f"note: port {port} is taken" in text
    assert text.count("expert acts; watch at http://localhost:") == 2
