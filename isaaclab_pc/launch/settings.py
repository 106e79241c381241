# SPDX-License-Identifier: BSD-3-Clause
"""The vocabulary: every setting of a run and the values it takes.

The values themselves, and what they mean, stand in ``isaaclab_pc/conf``; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.launch.visualizers import VISUALIZERS
from isaaclab_pc.runners import RUNNERS
from isaaclab_pc.scaling.memory import parse_budget

__all__ = ["GROUPS", "RULES", "SEVERAL_GPUS", "Rule", "check_key", "check_setting", "flatten"]

SEVERAL_GPUS = re.compile(r"cuda:\d+(,cuda:\d+)*")
"""One GPU or several, as ``scripts/scale.py`` takes them."""

GROUPS = ("runner", "physics", "points", "scaling", "guard")
"""Settings that are Hydra groups: ``physics=ovphysx`` chooses ``conf/physics/ovphysx.yaml``."""


@dataclass(frozen=True)
class Rule:
    """What a setting accepts."""

    expects: str
    """The end of the sentence "expected ..."."""

    accepts: Callable[[Any], bool]
    """Whether a value is one of them."""

    choices: tuple[str, ...] = ()
    """The names it takes, for near ones in the message."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(low: int) -> Rule:
    return Rule(f"a whole number of at least {low}", lambda v: _is_number(v) and isinstance(v, int) and v >= low)


def _positive(most: float = float("inf")) -> Rule:
    limit = "" if most == float("inf") else f" and at most {most:g}"
    return Rule(f"a number above 0{limit}", lambda v: _is_number(v) and 0 < v <= most and v != float("inf"))


def _choice(*names: str) -> Rule:
    return Rule("one of " + ", ".join(names), lambda v: v in names, names)


def _or(word: str | None, rule: Rule) -> Rule:
    return Rule(f"{word or 'null'}, or {rule.expects}", lambda v: v == word or rule.accepts(v), rule.choices)


def _is_crop(value: Any) -> bool:
    pairs = list(value) if isinstance(value, (list, tuple)) else []
    return len(pairs) == 3 and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(map(_is_number, pair)) and pair[0] < pair[1]
        for pair in pairs
    )


def _is_features(value: Any) -> bool:
    known = {"rgb", "normals", "segmentation", "camera"}
    return isinstance(value, (list, tuple)) and set(value) <= known and len(set(value)) == len(value)


def _is_visualizer(value: Any) -> bool:
    names = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(name, str) and name in VISUALIZERS for name in names) and 0 < len(set(names)) == len(names)


def _is_budget(value: Any) -> bool:
    try:
        parse_budget(value)
    except ConfigError:
        return False
    return True


def group_names(group: str) -> tuple[str, ...]:
    """Return the options of a Hydra group, which are its files."""
    folder = resources.files("isaaclab_pc.conf") / group
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


_TEXT = Rule("a name", lambda v: isinstance(v, str) and bool(v.strip()))
_FLAG = Rule("true or false", lambda v: isinstance(v, bool))
_NAMES = Rule("a list of key=value", lambda v: isinstance(v, (list, tuple)) and all(isinstance(i, str) for i in v))

RULES: Mapping[str, Rule] = {
    "task": _TEXT,
    "runner.name": _choice(*RUNNERS),
    "num_envs": _or("auto", _whole(1)),
    "minibatch_size": _or(None, _whole(1)),
    "device": Rule(
        "auto, cpu, cuda or cuda:N",
        lambda v: isinstance(v, str) and bool(re.fullmatch(rf"auto|cpu|cuda|{SEVERAL_GPUS.pattern}", v)),
    ),
    "visualizer": _or(
        None, Rule(f"one of {', '.join(VISUALIZERS)}, or a list of them", _is_visualizer, tuple(VISUALIZERS))
    ),
    "seed": _whole(0),
    "max_iterations": _or(None, _whole(1)),
    "obs": _choice("points", "depth", "state"),
    "reward": _or(None, _choice("dense", "sparse")),
    "agent": _choice("default", "large"),
    "robot": _choice("franka", "franka_nucleus", "ur5e"),
    "resume": _or(None, Rule("latest, best, or a run's folder or checkpoint", _TEXT.accepts)),
    "eval.episodes": _whole(1),
    "eval.seed": _whole(0),
    "env_overrides": _NAMES,
    "agent_overrides": _NAMES,
    "physics.backend": _choice(*group_names("physics")),
    "physics.preset": _or(None, _choice("fast", "balanced", "robust")),
    "physics.dt": _or(None, _positive(0.1)),
    "physics.decimation": _or(None, _whole(1)),
    "physics.substeps": _or(None, _whole(1)),
    "physics.position_iterations": _or(None, _whole(1)),
    "physics.velocity_iterations": _or(None, _whole(0)),
    "physics.contacts": _or(None, _whole(1)),
    "physics.constraints": _or(None, _whole(1)),
    "physics.effort_limit_scale": _or(None, _positive(1)),
    "physics.velocity_limit_scale": _or(None, _positive(1)),
    "points.num_points": _or(None, _whole(1)),
    "points.sampler": _or(None, _choice("random", "grid", "voxel", "fps")),
    "points.frame": _or(None, _choice("env", "robot", "gripper", "camera")),
    "points.features": _or(None, Rule("a list of rgb, normals, segmentation, camera", _is_features)),
    "points.realism": _or(None, _choice("none", "structured_light", "stereo")),
    "points.crop": _or(None, Rule("[[x0,x1],[y0,y1],[z0,z1]] with x0 < x1 and so on [m]", _is_crop)),
    "points.remove_robot": _or(None, _FLAG),
    "points.dtype": _or(None, _choice("float16", "float32")),
    "guard.mode": _choice("quarantine", "sanitize", "raise", "disabled"),
    "guard.ends": _choice("terminated", "truncated"),
    "guard.max_abs": _or(None, _positive()),
    "guard.dump": _whole(0),
    "guard.storm": _or(None, _positive(1)),
    "scaling.budget": _or(None, Rule("a fraction up to 1 or a size such as 12GB", _is_budget)),
    "scaling.objective": _choice("auto", "memory", "throughput"),
    "scaling.min": _or(None, _whole(1)),
    "scaling.max": _or(None, _whole(1)),
    "scaling.granule": _or(None, _whole(1)),
    "scaling.max_trials": _or(None, _whole(1)),
    "scaling.max_seconds": _positive(),
    "scaling.cache": _choice("use", "refresh", "ignore"),
}

INTERNAL = frozenset({"env_overrides", "agent_overrides"})
"""Filled from ``env.*`` and ``agent.*``, not written by users."""


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested config as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def check_key(key: str) -> None:
    """Refuse a key that no setting has.

    Raises:
        ConfigError: The key is unknown; the message shows the near ones.
    """
    names = {*RULES, *GROUPS} - INTERNAL
    if key not in names:
        raise ConfigError(f"{key} is not a setting: {closest(key, names)} See --help for all of them.")


def check_setting(key: str, value: Any) -> None:
    """Refuse a value that a setting does not take.

    Args:
        key: A group, or the dotted name of a setting.
        value: What the user gave.

    Raises:
        ConfigError: The message names the setting, the value and what was expected.
    """
    rule = _choice(*group_names(key)) if key in GROUPS else RULES[key]
    if not rule.accepts(value):
        shown = "null" if value is None else value
        names = value if isinstance(value, list) else [value]
        wrong = [name for name in names if isinstance(name, str) and name not in rule.choices]
        near = closest(wrong[0], rule.choices) if wrong and rule.choices else ""
        hint = f"; {near}" if near.startswith("did") else "."
        raise ConfigError(f"{key}={shown}: expected {rule.expects}{hint}")
