# SPDX-License-Identifier: BSD-3-Clause
"""Check ``env.*`` and ``agent.*`` against the configs that they are for.

Isaac Lab sets whatever attribute an override names, so a misspelt one would change nothing and say nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from isaaclab_pc.errors import ConfigError, closest

__all__ = ["check_overrides"]

_LITERALS = {"true": True, "false": False, "none": None, "null": None}


def check_overrides(configs: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Refuse overrides of fields that do not exist, and values of another type.

    Args:
        configs: Configs by the first part of a key: ``env`` and ``agent``; config classes, dicts and lists.
        overrides: ``env.<field>=value`` and ``agent.<field>=value``.

    Raises:
        ConfigError: The message names the field and the near ones, or the type that was expected.
    """
    for override in overrides:
        key, text = override.split("=", 1)
        root, *path = key.split(".")
        value = configs[root]
        for depth, name in enumerate(path):
            fields = _fields(value)
            if name not in fields:
                where = ".".join([root, *path[:depth]])
                raise ConfigError(f"{key}: {where} has no field {name}: {closest(name, fields)}")
            value = fields[name]
        if not _fits(value, _parse(text)):
            raise ConfigError(f"{override}: expected {_describe(value)}, like the present {_shown(value)}.")


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return {str(index): item for index, item in enumerate(value)}
    if is_dataclass(value):
        return {name: getattr(value, name, None) for name in value.__dataclass_fields__}
    return {}


def _parse(text: str) -> Any:
    """Read a value as Isaac Lab does."""
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _fits(present: Any, new: Any) -> bool:
    if present is None or new is None:
        return True
    if isinstance(present, bool):
        return isinstance(new, bool)
    if isinstance(present, (int, float)):
        whole = isinstance(present, int)
        return isinstance(new, int if whole else (int, float)) and not isinstance(new, bool)
    if isinstance(present, (list, tuple)):
        return isinstance(new, (list, tuple))
    if is_dataclass(present):
        return isinstance(new, str)  # the name of a preset; Isaac Lab knows which there are
    return True


def _describe(present: Any) -> str:
    if isinstance(present, bool):
        return "true or false"
    if isinstance(present, int):
        return "a whole number"
    if isinstance(present, float):
        return "a number"
    return "a list" if isinstance(present, (list, tuple)) else "one of its fields, or a preset"


def _shown(present: Any) -> str:
    return type(present).__name__ if is_dataclass(present) else str(present)
