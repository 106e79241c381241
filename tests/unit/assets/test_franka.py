# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's own Panda with and without its asset server."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from isaaclab.assets import ArticulationCfg
from isaaclab.sim import UsdFileCfg
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG, franka_nucleus_cfg
from isaaclab_pc.errors import ConfigError


class AssetServer(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/franka_panda.usda" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def asset_server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), AssetServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def spawn_of(robot: ArticulationCfg) -> UsdFileCfg:
    assert isinstance(robot.spawn, UsdFileCfg)
    return robot.spawn


def use_asset(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(spawn_of(FRANKA_PANDA_CFG), "usd_path", path)


@pytest.mark.parametrize(("backend", "variant"), [("ovphysx", "physx"), ("newton_mjwarp", "mujoco")])
def test_nucleus_robot_selects_the_backends_variant(
    monkeypatch: pytest.MonkeyPatch, asset_server: str, backend: str, variant: str
):
    use_asset(monkeypatch, f"{asset_server}/franka_panda.usda")
    before = str(FRANKA_PANDA_CFG)
    robot = franka_nucleus_cfg(backend)
    assert str(FRANKA_PANDA_CFG) == before
    spawn = spawn_of(robot)
    assert spawn.usd_path == f"{asset_server}/franka_panda.usda"
    assert isinstance(spawn.variants, dict)
    assert spawn.variants["Physics"] == variant
    assert spawn.semantic_tags == [("class", "robot")]
    ours = FRANKA_PANDA_PRIMITIVE_CFG.actuators["panda_arm"]
    assert robot.actuators["panda_arm"].stiffness == ours.stiffness
    assert robot.actuators["panda_arm"].damping == ours.damping
    assert robot.arm_joints == FRANKA_PANDA_PRIMITIVE_CFG.arm_joints
    assert robot.tcp_offset == FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset


def test_nucleus_robot_may_be_a_local_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "robot.usda").write_text("#usda 1.0\n", encoding="utf-8")
    use_asset(monkeypatch, str(tmp_path / "robot.usda"))
    assert spawn_of(franka_nucleus_cfg("ovphysx")).usd_path == str(tmp_path / "robot.usda")


@pytest.mark.parametrize("path", ["http://127.0.0.1:9/franka.usda", "/nowhere/franka.usda", "missing"])
def test_an_unreachable_robot_is_refused_in_seconds(monkeypatch: pytest.MonkeyPatch, asset_server: str, path: str):
    path = f"{asset_server}/other.usda" if path == "missing" else path
    use_asset(monkeypatch, path)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="robot=franka"):
        franka_nucleus_cfg("ovphysx")
    assert time.monotonic() - start < 10.0
