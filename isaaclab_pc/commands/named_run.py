# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a run that a command line names. Loads no torch."""

import itertools
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from isaaclab_pc.cli.command_line import check_form
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.run.folder import LOGS
from isaaclab_pc.run.record import RECORD_NAME
from isaaclab_pc.settings.base import shown

_MOST_LOOKED_AT = 1000
"""Runs among which near names are sought."""


def split_folders(argv: Sequence[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """Split a command line into folders, which may have an equals sign in their names, and settings or options.

    Raises:
        ConfigError: One of the script's settings, ``names``, stands alone.
    """
    folders: list[str] = []
    others: list[str] = []
    for argument in argv:
        check_form(argument, names)
        # Unlike Path.exists, this takes a name that is too long for a file.
        is_setting = argument.startswith("-") or ("=" in argument and not os.path.exists(argument))
        (others if is_setting else folders).append(argument)
    return folders, others


def named_run(text: str, *others: str) -> Path:
    """Return the folder of a run from its name or that of the record in it; ``others`` may be given as well.

    Raises:
        ConfigError: It holds no run; the message names runs in it, or folders with similar names.
    """
    folder = Path(text)
    try:
        if (folder / RECORD_NAME).is_file():
            return folder
        if folder.name == RECORD_NAME and folder.is_file():
            return folder.parent
        is_folder = folder.is_dir()
    except OSError as error:
        raise ConfigError(f"{shown(text)}: {error.strerror}.") from None
    if is_folder:
        # Not deeper than from logs: a whole disk may lie below.
        found = itertools.chain.from_iterable(folder.glob(f"{'*/' * depth}{RECORD_NAME}") for depth in (1, 2, 3))
        inside = sorted(str(path.parent) for path in itertools.islice(found, _MOST_LOOKED_AT))[-3:]
        give = f"give {', or '.join(['logs/<runner>/<task>/<time>', *others])}."
        hint = f"did you mean {' or '.join(inside)}?" if inside else give
        raise ConfigError(f"{folder} is not a run's folder: it has no {RECORD_NAME}; {hint}")

    parent = folder.parent if folder.parent.is_dir() else LOGS
    names = [entry.name for entry in os.scandir(parent) if entry.is_dir()] if parent.is_dir() else []
    otherwise = ", or ".join([*(f"give {other}" for other in others), "train one first"])
    near = f"In {parent}: {closest(folder.name, names)}" if names else f"{otherwise[0].upper()}{otherwise[1:]}."
    raise ConfigError(f"{folder}: there is no such folder. {near}")
