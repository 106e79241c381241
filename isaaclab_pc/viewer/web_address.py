# SPDX-License-Identifier: BSD-3-Clause
"""Where pages in a browser are served: a port that is free, and the address that a browser opens."""

from __future__ import annotations

import errno
import socket

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.terminal.screen import current

__all__ = ["free_port", "host_name"]

_LAST_PORT = 65535


def free_port(host: str, port: int) -> int:
    """Return a port, or the next one where another program listens on it, and say so.

    Args:
        host: Address to listen on.
        port: The port that is wanted.

    Raises:
        ConfigError: This user may listen on none of them.
    """
    for candidate in range(port, _LAST_PORT + 1):
        try:
            socket.create_server((host, candidate)).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise ConfigError(
                f"port={candidate} host={host}: cannot listen there ({error.strerror}). Give a port from 1024 up."
            ) from None
        if candidate != port:
            current().say(f"note: port {port} is taken, {candidate} is the next free one")
        return candidate
    raise ConfigError(f"port={port} host={host}: it is taken, and so are all above it. Give a lower port.")


def host_name(host: str) -> str:
    """Return by which name a browser finds who listens on an address: this machine's, where it is all of them."""
    return {"0.0.0.0": socket.gethostname(), "127.0.0.1": "localhost"}.get(host, host)
