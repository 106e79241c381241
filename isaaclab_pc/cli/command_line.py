# SPDX-License-Identifier: BSD-3-Clause
"""From a command line to checked settings' texts; nothing is composed yet and no simulator is near."""

import itertools
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from isaaclab_pc.cli.task_names import resolve_task, short_names
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.settings.base import Settings, check_value, settings_of, shown
from isaaclab_pc.settings.run import CUDA_DEVICES, SETTINGS

LAUNCHER = "hydra/launcher"
"""Hydra's group of what starts the runs of a sweep."""

_CLUSTER_LAUNCHERS = ("slurm", "submitit_local", "submitit_slurm")
"""Its values that also start a single run."""

GROUPS = {"physics": "physics.backend"}
"""Settings that are Hydra groups, and the setting that the group's name stands for."""

_CONSTANTS = ("true", "false", "null", "inf", "nan")
"""Words that are no texts in Hydra's grammar."""

_PATHS = ("resume", "teacher", "demos", "init")
"""Settings that take a path."""

_MAIN_PATHS = ("resume", "run", "policy", "dump", "file")
"""Settings for which a path is meant that stands alone, the first that a script has."""

_MOST_RUNS = 10_000
"""More values of one setting than this are a slip of the keyboard, such as in range(1,1e9)."""

_POLICIES = ("latest", "best", "pretrained", "expert")
"""Names that such settings take as well."""

JSON_FLAG = "--json"
"""Asks any script for one JSON object a line on standard output; everything else goes to standard error."""

_OPTIONS = ("--help", JSON_FLAG)
"""Words without a value that every script has."""

_SHORT_FLAGS = {
    "-m": "--multirun",
    "-r": "--run",
    "-c": "--cfg",
    "-i": "--info",
    "-p": "--package",
    "-cd": "--config-dir",
}
"""Hydra's flags, short and long."""

_HYDRA_FLAGS = ("--hydra-help", "--version", "--resolve", *_SHORT_FLAGS.values())
_FLAGS_WITH_VALUE = ("--cfg", "--info", "--package", "--config-dir")

EVERY_SETTING = (*SETTINGS, "env.", "agent.")
"""Settings of a script that takes all those of a run."""


@dataclass(frozen=True)
class Takes[Own: Settings]:
    """Settings and options that a script takes: its ``TAKES``."""

    own: type[Own] | None = None
    """Describes the script's own settings."""

    run: Sequence[str] = ()
    """Settings of a run, other names for them, and groups of settings, as for :func:`keys_of`."""

    options: Sequence[str] = ()
    """Words without a value, such as ``--all``, beside those that every script has."""

    sweeps: bool = False
    """Whether it starts several runs or jobs of a cluster, which is what Hydra's flags and settings are for."""

    @property
    def names(self) -> list[str]:
        """All settings by name, the script's own first; groups that only a task or an agent knows are left out."""
        own = settings_of(self.own) if self.own is not None else ()
        taken = keys_of(*self.run)
        of_run = [key for key in (*SETTINGS, *GROUPS) if taken(GROUPS.get(key, key))]
        return list(dict.fromkeys([*own, *of_run]))


ANYTHING = Takes(run=EVERY_SETTING, sweeps=True)
"""All that any script takes of a run."""


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
        return "--multirun" in self.flags

    @property
    def launcher(self) -> str | None:
        """Value of ``hydra/launcher``; None where it is not given."""
        chosen = [text.partition("=")[2] for text in self.settings if text.startswith(f"{LAUNCHER}=")]
        return chosen[-1] if chosen else None

    @property
    def given(self) -> set[str]:
        """Dotted names of the settings that the user named; a group's name counts as the setting it stands for."""
        names = {text.partition("=")[0] for text in self.settings}
        return {GROUPS.get(name, name) for name in names}


def parse_command(argv: Sequence[str], takes: Takes = ANYTHING) -> Command:
    """Split and check a command line, without the program's name.

    Raises:
        ConfigError: A key, a choice, a value or a task is unknown or out of its range.
    """
    command = Command()

    arguments = iter(argv)
    for argument in arguments:
        flag = _SHORT_FLAGS.get(argument, argument)
        if flag in _HYDRA_FLAGS:
            if not takes.sweeps:
                raise ConfigError(f"{argument} has no use here; --help shows what has.")
            command.flags.append(flag)
            if flag in _FLAGS_WITH_VALUE:
                command.flags.extend(itertools.islice(arguments, 1))
        elif argument.startswith("-"):
            _refuse_flag(argument, takes)
        elif "=" not in argument:
            _refuse_word(argument, takes)
        elif argument.startswith("env."):
            command.env.append(argument)
        elif argument.startswith("agent."):
            command.agent.append(argument)
        else:
            command.settings.append(argument)

    command.settings[:] = [_with_quotes(text, command.multirun) for text in command.settings]
    hydra_runs = bool(command.flags) or (takes.sweeps and command.launcher in _CLUSTER_LAUNCHERS)
    for text in command.settings:
        _check_setting(text, command, hydra_runs)
    for text in (*command.env, *command.agent):
        single_values(parse_override(text), command.multirun)
    return command


def parse_script_command[Own: Settings](argv: Sequence[str], takes: Takes[Own]) -> tuple[Own, Command]:
    """Split and check the command line of a script that has settings of its own beside a few of a run's.

    Raises:
        ConfigError: A setting is none of both, or a value is refused.
    """
    assert takes.own is not None
    settings, others = split_own(argv, takes.own)
    has_use = keys_of(*takes.run)
    for argument in others:
        check_form(argument, takes.names)
        key, equals, _ = argument.partition("=")
        if equals and not argument.startswith("-") and not has_use(key):
            near = closest(key, takes.names)
            if not near.startswith("did"):
                near = closest(key, [*settings_of(takes.own), *(name.rstrip(".") for name in takes.run)])
            raise ConfigError(f"{shown(key or argument)} has no use here: {near} See --help.")
    return settings, parse_command(others, takes)


def split_own[Own: Settings](argv: Sequence[str], own: type[Own]) -> tuple[Own, list[str]]:
    """Return a script's own settings, ``~`` expanded, and the other arguments; a refused value is a ConfigError."""
    values: dict[str, Any] = {}
    others = []
    for argument in argv:
        key, separator, value = argument.partition("=")
        if separator and key in settings_of(own):
            if not value:
                raise ConfigError(f"{key}= has no value: give one, or leave {key} out.")
            values[key] = None if value == "null" else os.path.expanduser(value)
        else:
            others.append(argument)
    return own(**values), others


def keys_of(*patterns: str) -> Callable[[str], bool]:
    """Return a test of dotted names: for names, and for groups as in ``physics.``."""
    groups = tuple(name for name in patterns if name.endswith("."))
    return lambda key: key in patterns or f"{key}.".startswith(groups)


def parse_override(text: str) -> Override:
    """Parse ``key=value`` in Hydra's grammar, or raise a ConfigError with Hydra's reason."""
    try:
        return OverridesParser.create().parse_override(text)
    except (HydraException, RecursionError, ValueError) as error:
        # ValueError: Python reads no integer of more than 4300 digits.
        reason = (str(error).splitlines() or ["too deep"])[0]
        raise ConfigError(f"{shown(text)} cannot be read: {shown(reason)}") from None


def override_value(value: object) -> str:
    """Return a value in Hydra's grammar, the reverse of :func:`parse_override`: also of lists of plain values."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(override_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    # Anything else may have a meaning in the grammar, where it stands without quotes.
    if re.fullmatch(r"[A-Za-z_/][\w./-]*", value, re.ASCII) and value.lower() not in _CONSTANTS:
        return value
    return quoted(value)


def quoted(text: str) -> str:
    """Quote a text for Hydra."""
    return QuotedString(text, Quote.single).with_quotes()


def _with_quotes(text: str, multirun: bool) -> str:
    """Quote what only looks like Hydra's grammar: paths, with ~ expanded, and the commas of one run's GPUs."""
    key, _, value = text.partition("=")
    if multirun and "," in value:
        return text
    is_path = key in _PATHS and value not in ("", "null") and value[0] not in "'\"$"
    is_gpus = key == "device" and re.fullmatch(CUDA_DEVICES, value)
    return f"{key}={override_value(os.path.expanduser(value))}" if is_path or is_gpus else text


def _refuse_flag(argument: str, takes: Takes) -> None:
    flag, _, value = argument.partition("=")
    name = flag.lstrip("-").replace("-", "_")
    if name in takes.names:
        raise ConfigError(f"{argument}: settings are written without dashes, {name}={value or '<value>'}.")
    options = [*takes.options, *_OPTIONS, *(_HYDRA_FLAGS if takes.sweeps else ())]
    raise ConfigError(f"{argument} is not an option: {closest(flag, options)}")


def _refuse_word(argument: str, takes: Takes) -> None:
    """Refuse an argument that is no ``key=value``, with the setting that is meant."""
    if f"--{argument}" in (*takes.options, *_OPTIONS):
        raise ConfigError(f"{argument}: did you mean --{argument}?")
    check_form(argument, takes.names)
    paths = [name for name in _MAIN_PATHS if name in takes.names]
    example = "task=reach"
    if argument in short_names():
        example = f"task={argument}"
    elif paths and (argument in _POLICIES or os.path.lexists(argument)):
        example = f"{paths[0]}={argument}"
    raise ConfigError(f"{shown(argument)}: settings are written key=value, such as {example}.")


def check_form(argument: str, names: Collection[str]) -> None:
    """Refuse the name of a setting that stands alone, as in ``seed = 1``, unless a file has that name."""
    if argument in names and not os.path.lexists(argument):
        raise ConfigError(f"{argument}: settings are written {argument}=<value>, without spaces around =.")


def single_values(override: Override, multirun: bool) -> list[str]:
    """Return ``key=value`` for each of the runs that an override makes, or raise a ConfigError."""
    text = str(override.input_line)
    if not override.is_sweep_override():
        return [text]
    if not multirun:
        raise ConfigError(
            f"{shown(text)}: several values need -m, which makes one run of each; a list is written [a,b]."
        )
    try:
        values = list(itertools.islice(override.sweep_string_iterator(), _MOST_RUNS + 1))
    except (HydraException, ValueError, ArithmeticError) as error:
        raise ConfigError(f"{shown(text)} is not a list of values: {error}") from None
    if len(values) > _MOST_RUNS:
        raise ConfigError(f"{shown(text)}: these are more than {_MOST_RUNS} runs.")
    return [f"{override.key_or_group}={value}" for value in values]


def _check_setting(text: str, command: Command, hydra_runs: bool) -> None:
    override = parse_override(text)
    key = override.key_or_group
    if key.split("/")[0].split(".")[0] == "hydra":
        if not hydra_runs:
            raise ConfigError(
                f"{text}: Hydra's own settings are for sweeps and jobs, and have no use without -m or {LAUNCHER}=slurm."
            )
        return
    if override.type is None or override.type.name != "CHANGE" or override.package is not None:
        raise ConfigError(f"{shown(text)}: settings are changed with key=value; +, ~ and @ have no use here.")
    if key not in SETTINGS and key not in GROUPS:
        raise ConfigError(f"{key} is not a setting: {closest(key, [*SETTINGS, *GROUPS])} See --help for all of them.")

    for single in single_values(override, command.multirun):
        value = _plain(parse_override(single).value())
        check_value(SETTINGS[GROUPS.get(key, key)]._replace(key=key), value)
        if key == "task":
            resolve_task(value)


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
