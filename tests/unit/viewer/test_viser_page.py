# SPDX-License-Identifier: BSD-3-Clause
"""The page in a browser: it answers, its controls do what they say, and it writes no error to the console."""

import urllib.request
from dataclasses import replace

import numpy as np
import psutil
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("viser", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from viser import transforms

from isaaclab_pc.viewer.arm_drive import ArmDrive, Motion
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import label_text
from isaaclab_pc.viewer.scene_pictures import colors_by_height, depth_picture
from isaaclab_pc.viewer.viser_page import ViserPage
from isaaclab_pc.viewer.viser_scene import LAYERS
from tests.unit.viewer import scenes
from tests.unit.viewer.browser import browser, needs_chromium
from tests.waiting import free_ports, wait_until


@pytest.fixture
def controls():
    return Controls()


@pytest.fixture
def page(controls):
    """A page that shows two environments after one step."""
    page = ViserPage("127.0.0.1", free_ports(1)[0], controls)
    page.begin(scenes.layout(), "### Two environments", has_controls=True)
    page.show(scenes.frame(1))
    yield page
    page.close()


def test_the_server_answers_on_this_machine_alone(page):
    with urllib.request.urlopen(page.url) as answer:
        assert b"<html" in answer.read()
    listening = [one.laddr for one in psutil.Process().connections() if one.status == psutil.CONN_LISTEN]
    assert [address.ip for address in listening if address.port == page._server.get_port()] == ["127.0.0.1"]


def test_the_buttons_control_the_loop(page, controls):
    assert controls.take_step(1e-9)
    page.panel.press("Pause")
    assert controls.paused
    assert not controls.take_step(1e-9)
    page.panel.press("Step")
    assert [controls.take_step(1e-9) for _ in range(2)] == [True, False]
    page.panel.press("Reset")
    assert (controls.take_reset(), controls.take_reset()) == (True, False)
    page.panel.press("To next fault")
    assert not controls.paused
    controls.saw_fault("env 1: reward")
    assert controls.paused
    page.panel.press("Run")
    assert not controls.paused
    assert controls.take_step(1e-9)
    page.panel.speed.value = 0.25
    assert controls.speed == 0.25


def test_points_are_drawn_in_their_colours_and_size_where_they_are(page, controls):
    cloud = page.scene.handles["/cloud/1"]
    drawn = cloud.points.astype(float) + np.asarray(cloud.position)
    assert np.allclose(drawn, np.array([1.0, 2.5, 0.25]), atol=1e-3)
    assert np.array_equal(cloud.colors, colors_by_height(np.full(scenes.POINTS, 0.25)))

    page.panel.point_size.value = 20
    assert controls.redraw
    page.redraw()
    assert page.scene.handles["/cloud/1"].point_size == 0.02


def test_every_camera_has_its_depth_image_and_stands_as_it_is_turned_until_layers_are_hidden(page):
    rotation = Rotation.from_euler("xyz", [0.4, -0.7, 1.1])
    frame = scenes.frame(2)
    poses = np.hstack([frame.gripper[:, :3], np.tile(rotation.as_quat(), (2, 1))])
    cameras = tuple(replace(camera, poses=poses) for camera in frame.cameras)
    page.show(replace(frame, gripper=poses, cameras=cameras))
    for name in ("/gripper/1", "/cameras/camera/1", "/cameras/wrist_camera/1"):
        drawn = transforms.SO3(np.asarray(page.scene.handles[name].wxyz)).as_matrix()
        assert drawn == pytest.approx(rotation.as_matrix(), abs=1e-5)
    for camera in cameras:
        image = page.panel.depth[camera.name]
        assert image.visible
        assert np.array_equal(image.image, depth_picture(camera.depth[0]))

    for layer in LAYERS:
        page.panel.layers[layer].value = False
        assert not page.scene.layers[layer].visible


def test_the_guards_finding_stands_over_the_environment_and_in_the_log(page):
    frame = scenes.frame(2, faults=((), ("joint_velocity",)), done=np.array([False, True]))
    page.show(frame)
    assert label_text(frame, 0).split("   ") == ["env 0", "reward 0.50"]
    assert label_text(frame, 1).split("   ") == [
        *("env 1", "reward 0.25", "success", "new episode", "GUARD: joint_velocity")
    ]
    assert page.scene.handles["/labels/1"].text == label_text(frame, 1)
    assert "env 1: joint_velocity" in page.panel.log.content


@pytest.fixture
def drive(page):
    """Sliders and keys for the page's environments."""
    motions = [Motion("x", "away", ("K", "I")), Motion("gripper", "", ("C", "V"), start=1.0, stays=True)]
    drive = ArmDrive(motions, key_steps=3)
    page.begin(scenes.layout(), "### Driven", has_controls=True, drive=drive)
    return drive


def test_sliders_and_keys_drive_the_arm_of_the_chosen_environment(page, drive):
    panel = page.panel.drive
    panel.sliders[0].value = -0.5
    panel.sliders[1].value = -1.0
    assert drive.next_action() == [-0.5, -1.0]
    panel.press(1, 1.0)
    assert panel.sliders[1].value == 1.0, "the slider follows the key"
    panel.press(0, 1.0)
    assert drive.next_action() == [1.0, 1.0]

    panel.env.value = "1"
    assert drive.env == 1
    assert drive.next_action() == [0.0, 1.0], "nobody asked this one to move"
    assert panel.sliders[0].value == 0.0


@pytest.mark.parametrize("has_controls", [True, False])
def test_another_environment_takes_the_place_of_the_first_beside_a_run_without_controls(page, drive, has_controls):
    page.begin(scenes.layout(), "### Others", has_controls)
    page.show(scenes.frame(7))
    assert page.panel.status.content.strip().startswith("Step 7 ")
    assert not hasattr(page.panel, "drive"), "nobody drives it"
    assert hasattr(page.panel, "speed") == has_controls


def test_what_a_replay_found_is_marked_and_its_values_are_a_curve_until_it_begins_anew(page):
    mark = (np.array([0.5, 0.1, 0.2]), "panda_joint4 velocity")
    for step in (1.5, 2.0, 2.5):
        watched = {"velocity": 10.0 * step, "bound": 20.0}
        page.show(scenes.frame(step, actions=None, reward=None, cloud=None, mark=mark, watched=watched))
    assert page.scene.handles["/labels/mark"].position == pytest.approx((0.5, 0.1, 0.2))
    assert page.scene.handles["/labels/mark_text"].text == "panda_joint4 velocity"
    steps, velocity, bound = page.panel.diagrams["watched"].plot.data
    assert steps.tolist()[-3:] == [1.5, 2.0, 2.5]
    assert velocity.tolist()[-3:] == [15.0, 20.0, 25.0]
    assert bound.tolist()[-1] == 20.0

    page.show(scenes.frame(0.5, actions=None, reward=None, cloud=None, mark=mark, watched={"velocity": 1.0}))
    assert page.panel.diagrams["watched"].plot.data[0].tolist() == [0.5]


@needs_chromium
def test_a_browser_shows_it_without_an_error_and_its_buttons_and_keys_work(page, drive, controls, tmp_path):
    page.show(scenes.frame(1))
    with browser(tmp_path / "profile") as chromium:
        chromium.open(page.url)
        for text in ("Driven", "Step 1 (0.1 s)", "gripper (C/V)"):
            chromium.wait_for(text)
        chromium.press("i")
        wait_until(lambda: drive.next_action()[0] == 1.0)
        chromium.press("c")
        wait_until(lambda: page.panel.drive.sliders[1].value == -1.0)
        assert drive.next_action()[1] == -1.0

        chromium.click("Scene")
        chromium.wait_for("Labels")
        chromium.click("Pause")
        wait_until(lambda: controls.paused)
        page.update_status()
        chromium.wait_for("paused")
        assert chromium.errors == []
