# SPDX-License-Identifier: BSD-3-Clause
"""Compares what the numbers of demonstrations mean with what they mean in the run that learns from them."""

import json
from collections.abc import Mapping
from typing import Any

import h5py

from isaaclab_pc.errors import ConfigError


def check_demos(demos: str, now: Mapping[str, Any]) -> None:
    """Refuse a file that tells of other actions or observations than those of the run; shapes are compared elsewhere.

    Args:
        demos: The file; it is not refused for what it does not tell.
        now: What :func:`~isaaclab_pc.export.policy_description.describe_env` says of the run.

    Raises:
        ConfigError: An action or observation means something else in this run, or its rate is another.
    """
    with h5py.File(demos, "r", locking=False) as file:
        data: Any = file["data"]
        recorded = json.loads(data.attrs.get("env_args", "{}")).get("description")
    if not recorded:
        return

    present = _meanings(now)
    for what, was in _meanings(recorded).items():
        if was is not None and was != present.get(what):
            raise ConfigError(
                f"demos={demos}: {what} was {was} when it was recorded, and is {present.get(what)} in this run. Give "
                "the settings that it was recorded with, or record it with those of the run."
            )


def _meanings(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be the same, by name; None where it is not told."""
    output = description["output"]
    cloud = description.get("cloud", {})
    states = [entry for entry in description.get("inputs", ()) if entry["name"] == "policy"]
    parts = {"actions": output.get("parts", ()), "state": states[0].get("parts", ()) if states else ()}
    return {
        "rate_hz": round(output["rate_hz"], 2),
        "points.frame": cloud.get("frame"),
        "points.features": list(cloud["channels"]) if "channels" in cloud else None,
        **{
            f"{part['name']} of the {vector}": {key: value for key, value in part.items() if key != "meaning"}
            for vector, described in parts.items()
            for part in described
        },
    }
