# SPDX-License-Identifier: BSD-3-Clause
"""Runs of a command line: one, or with ``-m`` one for each combination of values, by Hydra's sweeper and launcher."""

import contextlib
import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hydra
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from isaaclab_pc.cli.command_line import Command, override_value, parse_override, quoted, single_values
from isaaclab_pc.cli.compose import (
    CONFIG_MODULE,
    CONFIG_NAME,
    compose,
    on_one_line,
    settings_of_composed,
    store_settings,
)
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode, was_stopped
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.environment import environment_variables


def run_each(command: Command, run: Callable[[RunSettings], int]) -> int:
    """Compose the settings of each run of a command line, run it, and return the highest exit code.

    Raises:
        ConfigError: The settings of the only run are refused, or those of Hydra.
        SystemExit: Ctrl-C, which is for all of the runs.
    """
    if not command.flags:
        return run(compose(command.settings, command.env, command.agent))

    with tempfile.TemporaryDirectory() as scratch:
        return _run_hydra(command, run, scratch)


def _run_hydra(command: Command, run: Callable[[RunSettings], int], scratch: str) -> int:
    codes = [int(ExitCode.OK)]
    started = []

    def job(composed: DictConfig) -> None:
        if command.multirun:
            hydra_config = HydraConfig.get()
            # Not resolved: an override may refer to a setting that does not exist, which is refused below.
            overrides: Any = OmegaConf.to_container(hydra_config.overrides.task, resolve=False)
            number = hydra_config.job.num
            current().decide(f"\n== run {number}: {' '.join(overrides)}", run=number)
        try:
            settings = settings_of_composed(composed)
            started.append(settings)
            codes.append(run(settings))
        except ConfigError as error:
            current().fail(str(error))
            codes.append(ExitCode.REFUSED)
        started.clear()
        if was_stopped(codes[-1]):
            sys.exit(codes[-1])

    # The sweeper writes its own config into its folder, for which a run has no use.
    sweep_dir = [] if "hydra.sweep.dir" in command.given else [f"hydra.sweep.dir={override_value(scratch)}"]
    arguments = [*command.flags, *command.settings, *packed_overrides(command), *sweep_dir]
    store_settings()
    with _hydra_sees(arguments):
        try:
            hydra.main(version_base="1.3", config_path=f"pkg://{CONFIG_MODULE}", config_name=CONFIG_NAME)(job)()
        except Exception as error:
            if started:
                raise
            given = " ".join([*command.flags, *_hydra_settings(command)])
            raise ConfigError(f"{given}: {on_one_line(error)}") from None
    return max(codes)


def packed_overrides(command: Command) -> list[str]:
    """Render ``env.*`` and ``agent.*`` as two lists for Hydra, or as a sweep over all combinations of their values."""
    overrides = {"env_overrides": command.env, "agent_overrides": command.agent}
    packed = []
    for name, texts in overrides.items():
        values = [single_values(parse_override(text), command.multirun) for text in texts]
        runs = (f"[{','.join(map(quoted, chosen))}]" for chosen in itertools.product(*values))
        packed += [f"{name}={','.join(runs)}"] if texts else []
    return packed


def _hydra_settings(command: Command) -> list[str]:
    return [text for text in command.settings if re.match(r"[+~]*hydra[./@=]", text)]


def launcher_settings(command: Command) -> dict[str, Any]:
    """Compose the values below ``hydra.launcher``, or raise a ConfigError with Hydra's reason."""
    own = _hydra_settings(command)
    store_settings()
    with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        try:
            composed = hydra_compose(CONFIG_NAME, overrides=own, return_hydra_config=True)
            launcher: Any = OmegaConf.to_container(composed.hydra.launcher, resolve=True)
        except Exception as error:
            # Hydra's code raises more than Hydra's own exceptions.
            raise ConfigError(f"{' '.join(own)}: {on_one_line(error)}") from None
    return launcher


@contextlib.contextmanager
def _hydra_sees(arguments: Sequence[str]) -> Iterator[None]:
    """Let Hydra's application, which reads the program's arguments, see others, and let it raise its errors."""
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        # Otherwise it prints a traceback and ends the program.
        with environment_variables({"HYDRA_FULL_ERROR": "1"}):
            yield
    finally:
        sys.argv = before
