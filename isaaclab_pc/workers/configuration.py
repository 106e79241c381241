# SPDX-License-Identifier: BSD-3-Clause
"""A digest of a run's configurations, by which a training recognizes those that the search tried."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve


def configuration_digest(settings: RunSettings, num_envs: int) -> str:
    """Resolve the configurations of environment and agent once more, and hash them.

    The digest is equal for runs that differ in seed, length and the number of their GPU only. The files that a
    configuration names count by size and time.
    """
    same = settings.with_values({"seed": 0, "max_iterations": None})
    resolved = resolve(same, num_envs, "digest")
    parts = _plain([resolved.env_cfg, resolved.agent_cfg], settings.device)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _plain(value: Any, device: str) -> Any:
    """Return a configuration as lists, dictionaries and text that are the same in every process."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if text == device:
            return device.partition(":")[0]
        if os.path.isabs(text) and os.path.isfile(text):
            stat = os.stat(text)
            return [os.path.basename(text), stat.st_size, stat.st_mtime_ns]
        return str(text)

    if isinstance(value, Mapping):
        return {str(key): _plain(part, device) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, device) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(part, device), sort_keys=True) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: _plain(getattr(value, field.name, None), device) for field in fields(value)}
        return [type(value).__qualname__, named]
    if callable(value):
        return f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value).__qualname__)}"
    if hasattr(value, "tobytes"):
        return hashlib.sha256(value.tobytes()).hexdigest()
    return type(value).__qualname__
