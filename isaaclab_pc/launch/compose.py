# SPDX-License-Identifier: BSD-3-Clause
"""From a command line to one plain config, checked before Hydra composes it. Loads no torch."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.launch.settings import GROUPS, INTERNAL, RULES, SEVERAL_GPUS, check_key, check_setting, flatten
from isaaclab_pc.launch.task_names import resolve_task

__all__ = ["Command", "compose", "load_config", "parse_command", "save_config", "split_own", "to_config", "validate"]

CONFIG_MODULE = "isaaclab_pc.conf"
CONFIG_NAME = "train"

_log = logging.getLogger(__name__)

_FLAGS = frozenset(["-h", "--help", "--hydra-help", "--version", "--resolve", "-r", "--run", "-m", "--multirun"])
_FLAGS_WITH_VALUE = frozenset(["-c", "--cfg", "-p", "--package", "-i", "--info", "-cd", "--config-dir"])


@dataclass(frozen=True)
class Command:
    """A checked command line."""

    flags: list[str] = field(default_factory=list)
    """Hydra's own flags and their values."""

    settings: list[str] = field(default_factory=list)
    """``key=value`` of this package's settings, and of Hydra's."""

    env: list[str] = field(default_factory=list)
    """``env.<field>=value``, for the task's config."""

    agent: list[str] = field(default_factory=list)
    """``agent.<field>=value``, for the agent's config."""

    @property
    def multirun(self) -> bool:
        """Whether several values make several runs."""
        return "-m" in self.flags or "--multirun" in self.flags

    @property
    def given(self) -> set[str]:
        """Keys and groups that the user named."""
        return {text.split("=", 1)[0] for text in self.settings}

    def hydra_args(self) -> list[str]:
        """Return the arguments for Hydra, ``env.*`` and ``agent.*`` packed into two lists."""
        packed = [
            f"{name}={_pack(overrides, self.multirun)}"
            for name, overrides in (("env_overrides", self.env), ("agent_overrides", self.agent))
            if overrides
        ]
        return [*self.flags, *self.settings, *packed]


def split_own(argv: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Take out of a command line what only one script has, and no run.

    Args:
        argv: Arguments without the program's name.
        names: The script's own keys.

    Returns:
        The values of the own keys that were given, as text, and the other arguments.
    """
    pairs = [argument.partition("=") for argument in argv]
    own = {key: value for key, separator, value in pairs if separator and key in names}
    return own, ["".join(pair) for pair in pairs if not (pair[1] and pair[0] in names)]


def parse_command(argv: Sequence[str]) -> Command:
    """Split and check a command line; nothing is composed and no simulator is near.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The checked command.

    Raises:
        ConfigError: A key, a choice, a value or a task is unknown or out of its range.
    """
    command = Command()
    arguments = iter(argv)
    for argument in arguments:
        if argument in _FLAGS:
            command.flags.append(argument)
        elif argument in _FLAGS_WITH_VALUE:
            command.flags.extend([argument, next(arguments, "")])
        elif argument.startswith("-"):
            _refuse_flag(argument)
        elif "=" not in argument:
            raise ConfigError(f"{argument}: settings are written key=value, e.g. task={argument}.")
        elif argument.startswith(("env.", "agent.")):
            (command.env if argument.startswith("env.") else command.agent).append(argument)
        else:
            command.settings.append(argument)
    if not command.multirun:
        command.settings[:] = map(_quote_gpus, command.settings)
    for text in command.settings:
        _check_override(text, command.multirun)
    for text in (*command.env, *command.agent):
        _check_several(_parse(text), command.multirun)
    return command


def _quote_gpus(text: str) -> str:
    """Keep the commas of several GPUs, which are one value where there is one run, from Hydra."""
    key, _, value = text.partition("=")
    return f"device='{value}'" if key == "device" and SEVERAL_GPUS.fullmatch(value) else text


def _refuse_flag(argument: str) -> None:
    name = argument.lstrip("-").split("=", 1)[0]
    if name in {*RULES, *GROUPS}:
        raise ConfigError(f"{argument}: settings are written without dashes, {name}=<value>.")
    near = closest(argument, [flag for flag in (*_FLAGS, *_FLAGS_WITH_VALUE) if flag.startswith("--")])
    raise ConfigError(f"{argument} is not an option: {near}")


def _parse(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise ConfigError(f"{text} cannot be read: {str(error).splitlines()[0]}") from None


def _check_several(override: Override, multirun: bool) -> None:
    if override.is_sweep_override() and not multirun:
        raise ConfigError(
            f"{override.input_line}: several values need -m, which makes one run of each; a list is written [a,b]."
        )


def _check_override(text: str, multirun: bool) -> None:
    override = _parse(text)
    key = override.key_or_group
    if key.split("/")[0].split(".")[0] == "hydra":
        return  # Hydra's own settings are Hydra's to check
    if override.type is None or override.type.name != "CHANGE":
        raise ConfigError(f"{text}: settings are changed with key=value; + and ~ have no use here.")
    check_key(key)
    _check_several(override, multirun)
    texts = [f"{key}={value}" for value in override.sweep_string_iterator()] if override.is_sweep_override() else [text]
    for single in texts:
        value = _plain(_parse(single).value())
        check_setting(key, value)
        if key == "task":
            resolve_task(value)


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _pack(overrides: Sequence[str], multirun: bool) -> str:
    """Render overrides as one Hydra list, or as the sweep over all combinations of their values."""
    combinations: list[list[str]] = [[]]
    for text in overrides:
        override = _parse(text)
        several = multirun and override.is_sweep_override()
        values = [f"{override.key_or_group}={v}" for v in override.sweep_string_iterator()] if several else [text]
        combinations = [[*chosen, value] for chosen in combinations for value in values]
    return ",".join("[" + ",".join(_quote(text) for text in chosen) + "]" for chosen in combinations)


def _quote(text: str) -> str:
    """Quote for Hydra, to which backslashes are special only in front of a quote."""
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text) + "'"


def compose(settings: Sequence[str] = ()) -> dict[str, Any]:
    """Compose the config without running a Hydra application.

    Args:
        settings: ``key=value`` as Hydra reads it.

    Returns:
        The plain config, checked, the task's name resolved to its gym id.

    Raises:
        ConfigError: A value is refused, by Hydra or by this package.
    """
    with _no_global_hydra(), initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        try:
            return to_config(hydra_compose(CONFIG_NAME, overrides=list(settings)))
        except HydraException as error:
            raise ConfigError(str(error)) from None


@contextlib.contextmanager
def _no_global_hydra() -> Iterator[None]:
    """Set a running Hydra application aside: only one may be initialized at a time."""
    state = GlobalHydra.get_state()
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.set_state(state)


def to_config(composed: DictConfig) -> dict[str, Any]:
    """Turn what Hydra composed into a plain, checked config.

    Args:
        composed: Hydra's result.

    Returns:
        Nested dicts, lists, numbers and strings; ``task`` is the gym id.

    Raises:
        ConfigError: A value is refused.
    """
    config = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(config, dict)
    config.pop("hydra", None)
    plain = {str(key): value for key, value in config.items()}
    validate(plain)
    plain["task"] = resolve_task(plain["task"])[0]
    return plain


def validate(config: Mapping[str, Any]) -> None:
    """Check every setting of a composed config, and those that hang together.

    Args:
        config: The plain config.

    Raises:
        ConfigError: A setting is missing, unknown or out of its range.
    """
    flat = flatten(config)
    for key, value in flat.items():
        if key not in INTERNAL:
            check_key(key)
        check_setting(key, value)
    missing = sorted(set(RULES) - set(flat))
    if missing:
        raise ConfigError(f"The config lacks {', '.join(missing)}.")
    if config["eval"]["seed"] == config["seed"]:
        raise ConfigError(f"eval.seed={config['seed']} is the seed of training too; evaluation needs unseen resets.")
    scaling = config["scaling"]
    if scaling["min"] is not None and scaling["max"] is not None and scaling["min"] > scaling["max"]:
        raise ConfigError(f"scaling.min={scaling['min']} is above scaling.max={scaling['max']}.")


def save_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write a config atomically as YAML.

    Args:
        path: The file; an older one is replaced.
        config: The plain config.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
    temporary.replace(path)


def load_config(path: Path, *, from_older: bool = False) -> dict[str, Any]:
    """Read a config that :func:`save_config` wrote, and check it.

    Args:
        path: The file.
        from_older: Take the default of a setting that the file lacks, as an older version's file does, and warn of it.

    Returns:
        The plain config.

    Raises:
        ConfigError: The file is missing, is not YAML, or holds a wrong setting.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds no settings.")
    missing = set(RULES) - set(flatten(config))
    if not (from_older and missing):
        validate(config)
        return config
    merged = OmegaConf.create(compose())
    merged.merge_with(config)
    filled = to_config(merged)
    taken = ", ".join(f"{key}={value}" for key, value in flatten(filled).items() if key in missing)
    _log.warning("%s was written by an older version: its run goes on with %s.", path, taken)
    return filled
