# SPDX-License-Identifier: BSD-3-Clause
"""Check ``env.*`` and ``agent.*`` against the configs that they are for.

Isaac Lab sets whatever attribute an override names, so a misspelt one would change nothing and say nothing. It takes
any number, too: where the bounds are known, they are checked here. And it imports whatever module a value names: run
folders come from others, so no value may name code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.settings.base import describe_type
from isaaclab_pc.settings.points import PointEncoder

__all__ = ["check_overrides", "parse_value"]

_CODE = re.compile(r"\s*(lambda\b|[\w.{}]+:[A-Za-z_][\w.]*\s*$)")
"""Texts that Isaac Lab and RSL-RL import or evaluate: ``module:name`` and lambda expressions."""

_CODE_FIELDS = ("class_name", "class_type", "func")
"""Fields that hold code, whatever it looks like."""

_CODE_SECTIONS = ("agent.models",)
"""Sections from which a library writes code that it then runs: skrl writes that of its models."""

_LIBRARY_OF = {
    "agent.algorithm": "rsl_rl",
    "agent.params": "rl_games",
    "agent.agent": "skrl",
    **dict.fromkeys(("agent.n_epochs", "agent.clip_range", "agent.gae_lambda", "agent.policy_kwargs"), "sb3"),
    **dict.fromkeys(("agent.gamma", "agent.learning_rate", "agent.max_grad_norm", "agent.ent_coef"), "sb3"),
}
"""Whose settings a section or a field of the agent holds: what a user writes for another library is told so."""

_LITERALS = {"true": True, "false": False, "none": None, "null": None}

_SET_ELSEWHERE = {
    "env.scene.num_envs": "num_envs",
    "env.seed": "seed",
    "env.obs": "obs",
    "env.sim.device": "device",
    "env.sim.physics": "physics.backend",
    "env.guard.mode": "guard.mode",
    "env.guard.ends": "guard.ends",
    "env.guard.max_abs": "guard.max_abs",
    "agent.seed": "seed",
    "agent.device": "device",
    "agent.class_name": "runner",
    "agent.algorithm.checkpoint": "init",
    "agent.actor.rnn_type": "recurrent",
    "agent.params.network.rnn_type": "recurrent",
    "agent.agent.class": "runner",
    "agent.params.seed": "seed",
    "agent.params.config.device": "device",
}
"""Fields that a setting of the run replaces, so that an override would say nothing."""

_HORIZONS = {
    "agent.num_steps_per_env": "agent.samples_per_update",
    "agent.params.config.horizon_length": "agent.params.config.samples_per_update",
    "agent.agent.rollouts": "agent.samples_per_update",
    "agent.n_steps": "agent.samples_per_update",
}
"""Steps of each environment per update, and what they come from where the agent has it, as this package's agents do."""

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, le=1e9)]
_NotNegative = Annotated[float, Field(ge=0, le=1e9)]
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Layer = Annotated[int, Field(ge=1, le=65_536)]

_BOUNDS: Mapping[str, Any] = {
    "env.episode_length_s": Annotated[float, Field(gt=0, le=3600)],
    "env.decimation": Annotated[int, Field(ge=1, le=1000)],
    "env.sim.dt": Annotated[float, Field(ge=1e-5, le=0.1)],
    "env.scene.env_spacing": Annotated[float, Field(gt=0, le=1000)],
    "env.scene.*.width": Annotated[int, Field(ge=1, le=4096)],
    "env.scene.*.height": Annotated[int, Field(ge=1, le=4096)],
    "env.max_depth": _Positive,
    "env.success_*": _Positive,
    "env.tool_delta": _Positive,
    "env.tool_rotation": _Positive,
    "env.joint_delta": _Positive,
    "env.reset_joint_noise": _NotNegative,
    "env.history_length": Annotated[int, Field(ge=1, le=64)],
    "env.goal_points": Annotated[int, Field(ge=0, le=100_000)],
    "env.goal_radius": _Positive,
    "agent.samples_per_update": _Count,
    "agent.num_steps_per_env": _Count,
    "agent.max_iterations": _Count,
    "agent.depth_iterations": _Count,
    "agent.algorithm.num_learning_epochs": Annotated[int, Field(ge=1, le=1000)],
    "agent.algorithm.num_mini_batches": _Count,
    "agent.algorithm.learning_rate": Annotated[float, Field(gt=0, le=1)],
    "agent.algorithm.gamma": _Share,
    "agent.algorithm.lam": _Share,
    "agent.algorithm.clip_param": _Positive,
    "agent.algorithm.desired_kl": _Positive,
    "agent.algorithm.max_grad_norm": _Positive,
    "agent.algorithm.entropy_coef": _NotNegative,
    "agent.algorithm.value_loss_coef": _NotNegative,
    "agent.algorithm.replay_samples": _Count,
    "agent.algorithm.refill_samples": _Count,
    "agent.algorithm.expert_share_samples": _Count,
    "agent.algorithm.last_expert_share": _Share,
    "agent.algorithm.turn_steps": Annotated[float, Field(ge=1, le=1e9)],
    "agent.algorithm.gripper_gain": _Positive,
    "agent.algorithm.small_error": _Positive,
    "agent.algorithm.critic_iterations": Annotated[int, Field(ge=0, le=1_000_000_000)],
    "agent.algorithm.critic_learning_rate": Annotated[float, Field(gt=0, le=1)],
    "agent.algorithm.reference_coef": _NotNegative,
    "agent.algorithm.reference_iterations": _Count,
    "agent.params.config.samples_per_update": _Count,
    "agent.params.config.num_minibatches": _Count,
    "agent.params.config.horizon_length": _Count,
    "agent.params.config.minibatch_size": _Count,
    "agent.params.config.max_epochs": _Count,
    "agent.params.config.mini_epochs": Annotated[int, Field(ge=1, le=1000)],
    "agent.params.config.learning_rate": Annotated[float, Field(gt=0, le=1)],
    "agent.params.config.gamma": _Share,
    "agent.params.config.tau": _Share,
    "agent.params.config.e_clip": _Positive,
    "agent.params.config.kl_threshold": _Positive,
    "agent.params.config.grad_norm": _Positive,
    "agent.params.config.entropy_coef": _NotNegative,
    "agent.params.config.critic_coef": _NotNegative,
    "agent.agent.rollouts": _Count,
    "agent.agent.mini_batches": _Count,
    "agent.agent.learning_epochs": Annotated[int, Field(ge=1, le=1000)],
    "agent.agent.learning_rate": Annotated[float, Field(gt=0, le=1)],
    "agent.agent.discount_factor": _Share,
    "agent.agent.gae_lambda": _Share,
    "agent.agent.ratio_clip": _Positive,
    "agent.agent.value_clip": _NotNegative,
    "agent.agent.learning_rate_scheduler_kwargs.kl_threshold": _Positive,
    "agent.agent.grad_norm_clip": _NotNegative,
    "agent.agent.entropy_loss_scale": _NotNegative,
    "agent.agent.value_loss_scale": _NotNegative,
    "agent.trainer.timesteps": _Count,
    "agent.n_steps": _Count,
    "agent.n_minibatches": _Count,
    "agent.batch_size": _Count,
    "agent.n_timesteps": _Count,
    "agent.n_epochs": Annotated[int, Field(ge=1, le=1000)],
    "agent.learning_rate": Annotated[float, Field(gt=0, le=1)],
    "agent.gamma": _Share,
    "agent.gae_lambda": _Share,
    "agent.clip_range": _Positive,
    "agent.clip_range_vf": _Positive,
    "agent.desired_kl": _Positive,
    "agent.target_kl": _Positive,
    "agent.max_grad_norm": _Positive,
    "agent.ent_coef": _NotNegative,
    "agent.vf_coef": _NotNegative,
    "agent.*.hidden_dims": list[_Layer],
    "agent.*.rnn_hidden_dim": _Layer,
    "agent.*.rnn_num_layers": Annotated[int, Field(ge=1, le=16)],
    "agent.*_hidden": list[_Layer],
    "agent.*_channels": Annotated[list[_Layer], Field(min_length=1)],
    "agent.*.depth_latent": _Layer,
    "agent.*.point_encoder": PointEncoder,
    "agent.*.encoder.chunk": Literal["auto"] | _Count,
    "agent.*.encoder.precision": Literal["float32", "bf16"],
    "agent.*.point_scale": _Positive,
    "agent.*_frequencies": list[Annotated[float, Field(ge=0, le=1e6)]],
    "agent.*.init_std": _Positive,
}
"""Types with the bounds of a field, by pattern of the key; the first match counts."""


def check_overrides(
    configs: Mapping[str, Any],
    overrides: Sequence[str],
    unresolved: Mapping[str, Any] | None = None,
    preset_type: type | tuple[()] = (),
) -> list[str]:
    """Refuse overrides of fields that do not exist, and values of another type or beyond the known bounds.

    Args:
        configs: Configs by the first part of a key: ``env`` and ``agent``; config classes, dicts and lists.
        overrides: ``env.<field>=value`` and ``agent.<field>=value``.
        unresolved: The same configs before Isaac Lab chose among presets; None: they have none.
        preset_type: Class of a field that is a choice of presets.

    Returns:
        The overrides, with the words none and null in quotes where a field takes nothing but text: Isaac Lab's parser
        reads them as no value.

    Raises:
        ConfigError: The message names the field and the near ones, or what was expected.
    """
    checked = []
    for override in overrides:
        key, _, text = override.partition("=")
        if key in _SET_ELSEWHERE:
            raise ConfigError(f"{override} would have no effect: set {_SET_ELSEWHERE[key]} instead.")

        root, *path = key.split(".")
        owner = None
        present = configs[root]
        for depth, name in enumerate(path):
            fields = _fields(present)
            if name not in fields:
                where = ".".join([root, *path[:depth]])
                other = _LIBRARY_OF.get(f"{where}.{name}")
                hint = f"; {where}.{name} is of runner={other}" if other is not None else ""
                raise ConfigError(f"{key}: {where} has no field {name}: {closest(name, fields)}{hint}")
            owner = present
            present = fields[name]

        if parse_value(text) is None and isinstance(present, str) and not _may_be_none(owner, path[-1], present):
            override = f"{key}={text!r}"

        samples = _HORIZONS.get(key)
        if samples is not None and _at(configs[root], samples.split(".")[1:]) is not None:
            raise ConfigError(
                f"{override} would have no effect: it follows from {samples}, the samples of all environments. Set "
                "that instead."
            )

        preset = _at((unresolved or {}).get(root), path)
        choices = list(_fields(preset)) if preset_type and isinstance(preset, preset_type) else []
        _check_value(override, owner, path[-1], present, choices)
        checked.append(override)
    return checked


def _check_value(override: str, owner: Any, name: str, present: Any, presets: Sequence[str]) -> None:
    key, _, text = override.partition("=")
    value = parse_value(text)
    if _names_code(key, present, value):
        raise ConfigError(
            f"{override}: a setting cannot name code, because settings come with run folders that others made. Name it "
            "in the config of a task of your own: scripts/new_task.py writes one."
        )
    if value is None and _may_be_none(owner, name, present):
        return

    if is_dataclass(present):
        if value in presets:
            return
        expected = f"one of its presets, {', '.join(presets)}" if presets else "a value for one of its fields"
        raise ConfigError(f"{override}: expected {expected}, as in {key}.{next(iter(_fields(present)), 'field')}=...")
    if value is None:
        raise _unexpected(override, value, _describe(present), present)

    bounds = next((kind for pattern, kind in _BOUNDS.items() if fnmatchcase(key, pattern)), None)
    if bounds is not None:
        try:
            TypeAdapter(bounds, config=ConfigDict(strict=True)).validate_python(_as_list(value))
        except ValidationError:
            raise _unexpected(override, value, describe_type(bounds), present) from None
    elif not _fits(present, value):
        raise _unexpected(override, value, _describe(present), present)


def _unexpected(override: str, value: Any, expected: str, present: Any) -> ConfigError:
    is_unread = isinstance(value, str) and value.startswith(("[", "(", "{"))
    hint = """ It was read as one word: in lists, words need quotes, as in "field=['a','b']".""" if is_unread else ""
    return ConfigError(f"{override}: expected {expected}, like the present {present}.{hint}")


def _names_code(key: str, present: Any, value: Any) -> bool:
    """Whether a field, or anything in its new value, would be imported or evaluated.

    A plain name in a field of code stays possible: RSL-RL finds it among its own classes.
    """
    is_code = callable(present) or (isinstance(present, str) and _CODE.match(present) is not None)
    is_code = is_code or key.startswith(tuple(f"{section}." for section in _CODE_SECTIONS))
    for field, text in _texts(key.rpartition(".")[2], value):
        if _CODE.match(text):
            return True
        if (is_code or field in _CODE_FIELDS) and not text.isidentifier():
            return True
    return False


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value, with the field that it is for; names of fields are texts, too."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield name, str(key)
            yield from _texts(str(key), item)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _texts(name, item)


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return {str(index): item for index, item in enumerate(value)}
    if is_dataclass(value):
        return {name: getattr(value, name, None) for name in value.__dataclass_fields__}
    return {}


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = _fields(value).get(name)
    return value


def parse_value(text: str) -> Any:
    """Read a value as Isaac Lab does.

    Args:
        text: What stands after the override's ``=``.
    """
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _may_be_none(owner: Any, name: str, present: Any) -> bool:
    """Whether a field takes None: it is None now, or its type says so."""
    if present is None:
        return True
    declared = getattr(type(owner), "__dataclass_fields__", {}).get(name)
    return declared is not None and "None" in str(declared.type)


def _fits(present: Any, new: Any) -> bool:
    if present is None:
        return True
    if isinstance(present, bool):
        return isinstance(new, bool)
    if isinstance(present, (int, float)):
        whole = isinstance(present, int)
        return isinstance(new, int if whole else (int, float)) and not isinstance(new, bool)
    if isinstance(present, (list, tuple)):
        return isinstance(new, (list, tuple))
    return True


def _describe(present: Any) -> str:
    if isinstance(present, bool):
        return "true or false"
    if isinstance(present, int):
        return "a whole number"
    if isinstance(present, float):
        return "a number"
    if isinstance(present, (list, tuple)):
        return "a list"
    return "text" if isinstance(present, str) else "a value"
