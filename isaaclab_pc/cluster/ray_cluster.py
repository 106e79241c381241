# SPDX-License-Identifier: BSD-3-Clause
"""A Ray cluster: joined, or started on this machine and ended. Loads Ray, no torch."""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import ray

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import interruptible
from isaaclab_pc.utils.environment import environment_variables

_OBJECT_STORE = 100 << 20
"""Shared memory of a local cluster [bytes]: next to nothing is exchanged through it."""

_ANSWER_SECONDS = 10.0
"""Longest time until a cluster answers [s]."""

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Otherwise Ray warns on the CPU of a future change for GPUs.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Paths in settings are relative to where the user stands.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # The supervisor of each run watches its memory.
    "RAY_memory_monitor_refresh_ms": "0",
}


@contextlib.contextmanager
def ray_cluster(
    address: str | None, machine: Mapping[str, int] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Connect to a cluster for the time of a block.

    Args:
        address: A running cluster; None: one is started on this machine, and ended.
        machine: Resources of that one: ``num_cpus`` and ``num_gpus``. None: those that Ray finds.
        environment: Further environment variables for Ray and its processes.

    Raises:
        ConfigError: There is no cluster at the address, or it has another version of Ray or Python.
    """
    if address:
        _check_answers(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    local: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE, **(machine or {})}
    # Around all of it: Ray leaves a handler of SIGTERM behind.
    with environment_variables({**_ENVIRONMENT, **(environment or {})}), interruptible():
        try:
            ray.init(address=address or "local", **quiet, **({} if address else local))
        except (ConnectionError, ValueError, RuntimeError) as error:
            if not address:
                raise
            raise ConfigError(f"no Ray cluster to join at {address}: {' '.join(str(error).split())}") from None
        try:
            # That handler would exit with 15 instead of 143.
            with interruptible():
                yield
        finally:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens, for which Ray would try for minutes, and that of Ray Client."""
    if address.startswith("ray://"):
        # This process would be no part of the cluster, and see neither its ranks nor their files.
        raise ConfigError(
            f"{address} is an address of Ray Client, which is not supported: start the script on a machine of the "
            "cluster, with RAY_ADDRESS=auto."
        )
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise ConfigError(f"no Ray cluster answers at {address}: {error}") from None
