# SPDX-License-Identifier: BSD-3-Clause
"""A policy that scripts/export.py wrote, as one of lerobot's.

    python scripts/export.py run=pretrained task=lift
    PYTHONPATH=examples lerobot-eval --env.discover_packages_path=lerobot_isaaclab_pc --env.type=isaaclab_pc \
        --env.dataset=logs/demo/lift/lerobot --env.settings="points.num_points=128" \
        --policy.type=isaaclab_pc --policy.export=logs/pretrained/lift/export

Runs where lerobot is installed, and needs nothing of isaaclab_pc. It acts; learning goes on in isaaclab_pc.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from lerobot.configs import PreTrainedConfig  # pyright: ignore[reportMissingImports]
from lerobot.policies import PreTrainedPolicy  # pyright: ignore[reportMissingImports]
from lerobot.processor import make_default_pre_post_processors  # pyright: ignore[reportMissingImports]

STATE = "observation.state"
CLOUD = "observation.pointcloud."

# By this name lerobot finds the pipelines around a policy: this one reads and writes plain numbers.
make_isaaclab_pc_pre_post_processors = make_default_pre_post_processors


def _refuse_to_learn(self: Any, *_: Any) -> NoReturn:
    raise RuntimeError("an exported policy learns no more: scripts/train.py trains it.")


@PreTrainedConfig.register_subclass("isaaclab_pc")
@dataclass
class IsaacLabPcConfig(PreTrainedConfig):
    """Which policy acts."""

    export: str = ""
    """Folder that scripts/export.py wrote."""
    normalization_mapping: dict[str, str] = field(default_factory=dict)
    """Empty: an exported policy normalizes by itself."""

    # Of use in training alone.
    observation_delta_indices = action_delta_indices = reward_delta_indices = None
    get_optimizer_preset = get_scheduler_preset = _refuse_to_learn

    def validate_features(self) -> None:
        """Accept all: the policy names a feature that it misses."""


class IsaacLabPcPolicy(PreTrainedPolicy):
    """An exported policy with its frames, for environments that begin their episodes together."""

    config_class = IsaacLabPcConfig
    name = "isaaclab_pc"

    def __init__(self, config: IsaacLabPcConfig, **kwargs: Any) -> None:
        """Load ``policy.pt`` and ``policy.json`` of the config's folder.

        Raises:
            ValueError: A file is missing, or the policy has a memory or reads other groups than these two.
        """
        super().__init__(config)
        folder = Path(config.export)
        try:
            description = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
            self._network: Any = torch.jit.load(folder / "policy.pt", map_location=config.device)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"--policy.export={folder}: not what scripts/export.py wrote ({error})") from error
        self._groups = [entry["name"] for entry in description["inputs"]]
        if description["memory"] or not {"policy", "points"}.issuperset(self._groups):
            raise ValueError(
                f"--policy.export={folder}: reads {', '.join(self._groups)}; give a policy of clouds or of the state, "
                "without a memory."
            )
        self._cloud = description.get("cloud")
        self._low, self._high = description["output"].get("clip", (-torch.inf, torch.inf))
        self._length: int = description.get("history", {"length": 1})["length"]
        self._frames: deque[dict[str, torch.Tensor]] = deque(maxlen=self._length)

    def reset(self) -> None:
        """Begin an episode: forget the frames of the last one."""
        self._frames.clear()

    def select_action(self, batch: dict[str, torch.Tensor], **kwargs: Any) -> torch.Tensor:
        """Return the actions (B, A) for a step's observations (B, ...)."""
        self._frames.append({name: self._observed(name, batch) for name in self._groups})
        frames = [self._frames[0]] * (self._length - len(self._frames)) + list(self._frames)
        inputs = {name: torch.stack([frame[name] for frame in frames], dim=1) for name in self._groups}
        if "policy" in inputs:
            inputs["policy"] = inputs["policy"].flatten(1)
        if self._length == 1 and "points" in inputs:
            inputs["points"] = inputs["points"].squeeze(1)
        return self._network(*inputs.values()).clamp(self._low, self._high)

    def predict_action_chunk(self, batch: dict[str, torch.Tensor], **kwargs: Any) -> torch.Tensor:
        """Return a chunk (B, 1, A) of one action."""
        return self.select_action(batch)[:, None]

    forward = get_optim_params = _refuse_to_learn

    def _observed(self, group: str, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return proprioception (B, P), or points (B, K, C) in the frame in which the policy knows them."""
        if group == "policy":
            return batch[STATE]
        values = {name: batch[CLOUD + name] for name in self._cloud["channels"]}
        if values["xyz"].shape[1] != (expected := self._cloud["num_points"] + self._cloud["appended_points"]):
            raise ValueError(
                f"{values['xyz'].shape[1]} points, where the policy reads {expected}: "
                f'--env.settings="points.num_points={self._cloud["num_points"]}"'
            )
        frame = batch[f"{CLOUD}frame"]
        values["xyz"] = values["xyz"] - frame[:, None, :3, 3]
        for name in values.keys() & {"xyz", "normals"}:
            values[name] = values[name] @ frame[:, :3, :3]
        rounded = torch.cat(list(values.values()), dim=-1).to(getattr(torch, self._cloud["rounded_to"]))
        return rounded.float()
