# SPDX-License-Identifier: BSD-3-Clause
"""What a policy that was trained, saved and loaded becomes as a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.learners import Runner
from tests.unit.learners.bench import go_on
from tests.unit.learners.fake_env import FakeEnv


def check_exports(make: Callable[[FakeEnv, Path], Runner], num_envs: int, folder: Path) -> None:
    """Check that the files of a policy of vectors act as its runner does.

    Args:
        make: Makes a runner with an environment and a folder.
        num_envs: Environments.
        folder: Where the files go.
    """
    exported_policy = pytest.importorskip("isaaclab_pc.export.exported_policy")
    env = FakeEnv(num_envs, "state")
    trained, played = (make(env, folder / name) for name in ("trained", "played"))
    trained.train(1, go_on)
    trained.save(folder / "1.pt", {})
    played.load_policy(folder / "1.pt")
    obs = env.observe()
    actions = played.act(obs)

    policy = exported_policy.PlainPolicy(played.policy(), obs)
    inputs = policy.inputs(obs)
    assert set(inputs) == {"policy"}
    policy.write_torchscript(folder / "policy.pt", inputs)
    exported_policy.compare(exported_policy.load_torchscript(folder / "policy.pt"), inputs, actions)
    policy.write_onnx(folder / "policy.onnx", inputs)
    exported_policy.compare(exported_policy.load_onnx(folder / "policy.onnx"), inputs, actions)
