# SPDX-License-Identifier: BSD-3-Clause
"""Compares what the numbers of demonstrations mean with what they mean in the run that learns from them."""

import json
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import h5py

from isaaclab_pc.errors import ConfigError


def check_demos(demos: str, now: Mapping[str, Any]) -> None:
    """Refuse a file that tells of other actions or observations than those of the run; shapes are compared elsewhere.

    Args:
        demos: The file; it is not refused for what it does not tell.
        now: What :func:`~isaaclab_pc.export.policy_description.describe_env` says of the run.

    Raises:
        ConfigError: An action or observation means something else in this run, its rate is another, or the file tells
            it in another way.
    """
    with h5py.File(demos, "r", locking=False) as file:
        data: Any = file["data"]
        env_args = data.attrs.get("env_args", "{}")
    try:
        description = json.loads(env_args).get("description")
        recorded = _meanings(description) if description else {}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"demos={demos}: its env_args are not those of docs/demos.md ({error!r}).") from None

    present = _meanings(now)
    for what in filter(present.__contains__, recorded):
        for was, is_now in zip_longest(recorded[what], present[what]):
            if was != is_now:
                raise ConfigError(
                    f"demos={demos}: {what} had {was} when it was recorded, and {is_now} in this run. Give the "
                    "settings that it was recorded with, or record it with those of the run."
                )


def _meanings(description: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return what is to be the same, by name, as far as it is told."""
    output = description["output"]
    inputs = {entry["name"]: entry for entry in description.get("inputs", ())}
    told = {
        "rate_hz": [round(output["rate_hz"], 2)],
        "the action": _parts(output),
        "the state": _parts(inputs.get("policy", {})),
    }
    if "cloud" in description:
        cloud = description["cloud"]
        told |= {"points.frame": [cloud["frame"]], "points.features": list(cloud.get("channels", ()))}
    return {what: values for what, values in told.items() if values}


def _parts(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in part.items() if key != "meaning"} for part in described.get("parts", ())]
