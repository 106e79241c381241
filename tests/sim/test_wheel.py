# SPDX-License-Identifier: BSD-3-Clause
"""The wheel is enough: without the repository, ``isaaclab-pc`` evaluates a policy that came with it."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import uv

from tests.unit.test_package import build_wheel

pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.timeout(1800)]

SHORT = ("device=cpu", "num_envs=4", "eval.episodes=4")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and behind it the packages of this one."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, symlinks=True)
    wheel = build_wheel(tmp_path_factory.mktemp("source"))
    install = [uv.find_uv_bin(), "pip", "install", "--offline", "--no-deps", "--python", folder / "bin" / "python"]
    subprocess.run([*install, wheel], check=True, capture_output=True)
    # A path in such a file comes behind the environment's own packages, and the .pth files in it are not read.
    others = [path for path in sys.path if path.endswith("site-packages")]
    (_packages(folder) / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    return folder


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def test_a_policy_is_evaluated(installed: Path, tmp_path: Path, backend: str) -> None:
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    play = [installed / "bin" / "isaaclab-pc", "play", "task=reach", "resume=pretrained", f"physics={backend}", *SHORT]
    done = subprocess.run(play, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    (result,) = tmp_path.glob("logs/pretrained/reach/*/result.json")
    assert json.loads(result.read_text(encoding="utf-8"))["episodes"] == 4
    # What Python compiled is what it ran: the script's module, and the child's.
    compiled = _packages(installed) / "isaaclab_pc"
    assert list(compiled.glob("commands/__pycache__/play.*.pyc"))
    assert list(compiled.glob("workers/__pycache__/play.*.pyc"))
    assert list(compiled.glob("tasks/reach/__pycache__/reach_env.*.pyc"))
