# SPDX-License-Identifier: BSD-3-Clause
"""Isaac Lab's visualizers: which there are, what each needs, and how many environments to show. Loads no torch."""

import os
import socket
from collections.abc import Mapping, Sequence

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.backends import INSTALL_ISAACSIM
from isaaclab_pc.utils.packages import is_installed

MOST_ENVS_SHOWN = 64
"""Environments that can be told apart in a browser."""

NUM_ENVS_SHOWN = 4
"""Environments of ``num_envs=auto`` with a visualizer: every step draws all of them."""

INSTALL_VIZ = "pip install 'isaaclab_pc[viz]'"

VISUALIZERS: Mapping[str, tuple[str, str]] = {
    "kit": ("isaacsim", INSTALL_ISAACSIM),
    "newton_gl": ("pyglet", "pip install 'pyglet>=2.1.6,<3'"),
    "newton_rtx": ("ovrtx", "pip install 'isaaclab[ovrtx]'"),
    "viser": ("viser", INSTALL_VIZ),
}
"""Module that each needs, and its installation, by Isaac Lab 3.0's names; its rerun is left out, since viser shows the
same and has controls. All but viser open a window."""


def check_host(host: str) -> None:
    """Refuse an address where this machine cannot listen, with a ConfigError."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError as error:
        raise ConfigError(
            f"host={host}: this machine cannot listen there ({error.strerror}). 127.0.0.1 is this machine alone, "
            "0.0.0.0 all of its networks."
        ) from None


def check_num_envs_shown(num_envs: int, force: bool) -> None:
    """Refuse more environments than can be told apart in a browser, unless forced, with a ConfigError."""
    if num_envs > MOST_ENVS_SHOWN and not force:
        raise ConfigError(
            f"num_envs={num_envs}: more than {MOST_ENVS_SHOWN} environments are too small to see and slow to draw. "
            "Give fewer, or force=true."
        )


def check_visualizers(names: Sequence[str], backend: str) -> None:
    """Raise ConfigError for visualizers that cannot start here.

    One is not installed, needs a display, or cannot share a process with another or with the physics backend.
    """
    for name in names:
        module, install = VISUALIZERS[name]
        if not is_installed(module):
            raise ConfigError(f"visualizer={name} needs {module}, which is not installed: {install}.")

    # Isaac Lab refuses these two as well, but only after it has imported the simulator.
    if "kit" in names and backend == "ovphysx":
        raise ConfigError(
            "visualizer=kit: physics=ovphysx is PhysX without Kit, and the two cannot share a process. Use "
            "visualizer=viser, or physics=newton_mjwarp or isaacsim_physx."
        )
    if "newton_rtx" in names and ("kit" in names or backend == "isaacsim_physx"):
        raise ConfigError("visualizer=newton_rtx cannot share a process with Isaac Sim; use visualizer=kit alone.")

    # Without DISPLAY, Isaac Lab would draw where nobody can see it.
    windows = [name for name in names if name != "viser"]
    if windows and not os.environ.get("DISPLAY"):
        raise ConfigError(
            f"visualizer={windows[0]} opens a window, and there is no display (DISPLAY is not set): log in with one, "
            "or use visualizer=viser, which shows in a browser, also from another machine."
        )
