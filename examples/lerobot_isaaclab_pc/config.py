# SPDX-License-Identifier: BSD-3-Clause
"""``--env.type=isaaclab_pc`` of lerobot's commands: the environments that a LeRobot dataset was recorded in."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
from lerobot.configs import PolicyFeature  # pyright: ignore[reportMissingImports]
from lerobot.envs import EnvConfig  # pyright: ignore[reportMissingImports]
from lerobot.utils.feature_utils import dataset_to_policy_features  # pyright: ignore[reportMissingImports]

from lerobot_isaaclab_pc.env import SimulatedEnvs


@EnvConfig.register_subclass("isaaclab_pc")
@dataclass
class IsaacLabPcEnv(EnvConfig):
    """The environments that a dataset was recorded in."""

    dataset: str = ""
    """Folder of the dataset, which scripts/demo.py wrote."""
    settings: str = ""
    """Further settings, as "physics=newton_mjwarp env.randomization=hard"."""
    fps: int = 0
    """The dataset's."""
    features: dict[str, PolicyFeature] = field(default_factory=dict)
    """The dataset's."""

    def __post_init__(self) -> None:
        """Read the dataset's features; a ValueError tells which file is missing."""
        try:
            info = json.loads((Path(self.dataset) / "meta" / "info.json").read_text(encoding="utf-8"))
            recorded = json.loads((Path(self.dataset) / "meta" / "isaaclab_pc.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"--env.dataset={self.dataset}: no dataset of scripts/demo.py ({error})") from error
        _, _, *given = shlex.split(recorded["command"])
        # They are the recording's, not the environments'.
        self._settings = [setting for setting in given if not setting.startswith("disturbances=")]
        self.task = recorded["task"]
        self.fps = info["fps"]
        # The simulator renders no depth maps.
        numbers = {name: feature for name, feature in info["features"].items() if feature["dtype"] != "video"}
        self.features = dataset_to_policy_features(numbers)
        self.features_map = {name: name for name in self.features}

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """Nothing: the environments aren't in gymnasium's registry."""
        return {}

    def create_envs(self, n_envs: int, use_async_envs: bool = False) -> dict[str, dict[int, gym.vector.VectorEnv]]:
        """Start the simulator with N environments; they are all in its one process, whatever ``use_async_envs``."""
        return {"isaaclab_pc": {0: SimulatedEnvs([*self._settings, *shlex.split(self.settings)], n_envs)}}
