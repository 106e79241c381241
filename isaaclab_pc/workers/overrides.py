# SPDX-License-Identifier: BSD-3-Clause
"""Check ``env.*`` and ``agent.*`` against the configs that they are for.

Isaac Lab sets any attribute and takes any number, so a misspelt override would change nothing and say nothing. It also
imports any module that a value names: run folders come from others, so no value may name code.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.settings.base import describe_type
from isaaclab_pc.settings.points import PointEncoder

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
"""Which library owns each section, for hints."""

_KINDS: Mapping[str, Any] = {"bool": bool, "int": int, "float": float, "list": list, "tuple": list}
"""Types of which values are checked, by name."""

_LITERALS = {"true": True, "false": False, "none": None, "null": None}

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)

_SET_ELSEWHERE = {
    "env.scene.num_envs": "num_envs",
    "env.seed": "seed",
    "env.obs": "obs",
    "env.scene.points.realism": "points.realism",
    "env.sim.device": "device",
    "env.sim.physics": "physics.backend",
    "env.guard.mode": "guard.mode",
    "env.guard.ends": "guard.ends",
    "env.guard.max_abs": "guard.max_abs",
    "agent.seed": "seed",
    "agent.device": "device",
    "agent.class_name": "runner",
    "agent.logger": "logger",
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
"""Steps of each environment per update, and the field that they follow from where the agent has it, as ours do."""

_Share = Annotated[float, Field(ge=0, le=1)]
_Rate = Annotated[float, Field(gt=0, le=1)]
_Positive = Annotated[float, Field(gt=0)]
_NotNegative = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]

_BOUNDS: Mapping[str, Any] = {
    r"env\.(episode_length_s|sim\.dt|scene\.env_spacing|max_depth|success_\w+)": _Positive,
    r"env\.(decimation|scene\.\w+\.width|scene\.\w+\.height)": _Count,
    r"agent\..*(gamma|lam|tau|gae_lambda|discount_factor|expert_share)": _Share,
    r"agent\..*learning_rate": _Rate,
    r"agent\..*(_coef|_loss_scale|value_clip|grad_norm_clip|motion_discount)": _NotNegative,
    r"agent\..*(clip|clip_param|clip_range|_kl|kl_threshold|grad_norm|init_std)": _Positive,
    r"agent\..*(epochs|max_iterations|mini_?batches|batch_size|timesteps)": _Count,
    r"agent\..*(_samples|samples_per_update|num_steps_per_env|horizon_length|rollouts|n_steps)": _Count,
    r"agent\..*(rnn_hidden_dim|rnn_num_layers)": _Count,
    r"agent\..*(hidden_dims|_hidden|_channels)": list[_Count],
    r"agent\..*point_encoder": PointEncoder,
    r"agent\..*encoder\.chunk": Literal["auto"] | _Count,
    r"agent\..*encoder\.precision": Literal["float32", "bf16"],
}
"""Types of fields by pattern of the key, where a simulator or a library would fail late at a slip, or learn nothing."""


def check_overrides(
    configs: Mapping[str, Any],
    overrides: Sequence[str],
    unresolved: Mapping[str, Any] | None = None,
    preset_type: type | tuple[()] = (),
) -> list[str]:
    """Refuse overrides of fields that do not exist, and values of another type or that cannot work.

    Args:
        configs: Configs by the first part of a key: ``env`` and ``agent``; config classes, dicts and lists.
        overrides: ``env.<field>=value`` and ``agent.<field>=value``.
        unresolved: The same configs before Isaac Lab chose among presets; None: they have none.
        preset_type: Class of a field that is a choice of presets.

    Returns:
        The overrides, with the words none and null in quotes where a field takes nothing but text: Isaac Lab's parser
        reads them as no value.

    Raises:
        ConfigError: The message names the field and the near ones, or the expected value.
    """
    checked = []
    for override in overrides:
        key, _, text = override.partition("=")
        if key in _SET_ELSEWHERE:
            raise ConfigError(f"{override} would have no effect: set {_SET_ELSEWHERE[key]} instead.")

        root, *path = key.split(".")
        owner, present = _find(configs[root], override)
        samples = _HORIZONS.get(key)
        if samples is not None and _at(configs[root], samples.split(".")[1:]) is not None:
            raise ConfigError(
                f"{override} would have no effect: it follows from {samples}, the samples of all environments. Set "
                "that instead."
            )

        is_text = isinstance(present, str) and not _may_be_none(owner, path[-1], present)
        if is_text and parse_value(text) is None:
            override = f"{key}={text!r}"
        preset = _at((unresolved or {}).get(root), path)
        choices = list(_fields(preset)) if preset_type and isinstance(preset, preset_type) else []
        _check_value(override, owner, path[-1], present, choices)
        checked.append(override)
    return checked


def _find(config: Any, override: str) -> tuple[Any, Any]:
    """Return the part of a config that has an override's field, and the field's present value."""
    key = override.partition("=")[0]
    root, *path = key.split(".")
    owner, present = None, config
    for depth, name in enumerate(path):
        where = ".".join([root, *path[:depth]])
        if present is None:
            _refuse_config(f"{override}: {where} is not set", owner, path[depth - 1])
        fields = _fields(present)
        if name not in fields:
            library = _LIBRARY_OF.get(f"{where}.{name}")
            hint = f"; {where}.{name} is of runner={library}" if library is not None else ""
            raise ConfigError(f"{key}: {where} has no field {name}: {closest(name, fields)}{hint}")
        owner, present = present, fields[name]
    return owner, present


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
    if present is None:
        _refuse_config(override, owner, name)

    if is_dataclass(present):
        if value in presets:
            return
        expected = f"one of its presets, {', '.join(presets)}" if presets else "a value for one of its fields"
        raise ConfigError(f"{override}: expected {expected}, as in {key}.{next(iter(_fields(present)), 'field')}=...")

    bounds = next((kind for pattern, kind in _BOUNDS.items() if re.fullmatch(pattern, key)), None)
    if bounds is not None:
        kinds, expected = [bounds], describe_type(bounds)
    elif present is None:
        kinds = [_KINDS.get(kind, Any) for kind in _type_names(owner, name)]
        expected = f"a value of the type {_declared(owner, name)}"
    else:
        kind = _KINDS.get(type(present).__name__, Any)
        kinds, expected = [kind], "a value" if kind is Any else describe_type(kind)
    if value is None or not any(_fits(kind, value) for kind in kinds):
        is_unread = isinstance(value, str) and value.startswith(("[", "(", "{"))
        hint = " It was read as one word: in lists, words need quotes, as in \"field=['a','b']\"." if is_unread else ""
        raise ConfigError(f"{override}: expected {expected}, like the present {present}.{hint}")


def _fits(kind: Any, value: Any) -> bool:
    """Whether a type takes a value as it is; tuples count as lists."""
    try:
        TypeAdapter(kind, config=_STRICT).validate_python(list(value) if isinstance(value, tuple) else value)
    except ValidationError:
        return False
    return True


def _names_code(key: str, present: Any, value: Any) -> bool:
    """Whether a field, or anything in its new value, would be imported or evaluated."""
    # A plain name in a field of code stays possible: RSL-RL finds it among its own classes.
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
    """Read the value of an override as Isaac Lab does."""
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _may_be_none(owner: Any, name: str, present: Any) -> bool:
    """Whether a field takes None: it is None now, or its type says so."""
    return present is None or "None" in _declared(owner, name)


def _declared(owner: Any, name: str) -> str:
    """Return the type of a config's field as it is written there; empty for a dict."""
    declared = getattr(type(owner), "__dataclass_fields__", {}).get(name)
    if declared is None:
        return ""
    return declared.type.__name__ if isinstance(declared.type, type) else str(declared.type)


def _type_names(owner: Any, name: str) -> list[str]:
    """Return the names of the types that a field takes besides None."""
    return [kind.partition("[")[0] for kind in _declared(owner, name).split(" | ") if kind != "None"]


def _refuse_config(what: str, owner: Any, name: str) -> None:
    """Refuse to set a field, or a part of it, that is None and takes a config: a value names no class."""
    kinds = _type_names(owner, name)
    if kinds and all(kind.endswith("Cfg") for kind in kinds):
        raise ConfigError(
            f"{what}: expected a config of the type {_declared(owner, name)}, which only the config of a task has. Set "
            "it in one of your own: scripts/new_task.py writes it."
        )
