# SPDX-License-Identifier: BSD-3-Clause
"""Which addresses of Ray clusters are refused, and how; no Ray is started."""

import re
import socket

import pytest
import ray

from isaaclab_pc.cluster.ray_cluster import ray_cluster
from isaaclab_pc.errors import ConfigError


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that Ray was told to join."""
    addresses: list[str] = []
    monkeypatch.setattr(ray, "init", lambda address, **_: addresses.append(address))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    return addresses


def test_ray_client_is_refused_with_what_to_do_instead(joined: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^ray://head:10001 .*RAY_ADDRESS=auto"):
        ray_cluster("ray://head:10001").__enter__()
    assert joined == []


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("[::1]", socket.AF_INET6)])
def test_a_cluster_that_listens_is_joined(joined: list[str], host: str, family: socket.AddressFamily) -> None:
    try:
        server = socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    address = f"{host}:{server.getsockname()[1]}"
    with server, ray_cluster(address):
        assert joined == [address]
    with pytest.raises(ConfigError, match=re.escape(address)):
        ray_cluster(address).__enter__()
    assert joined == [address]


def test_a_cluster_of_another_version_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise RuntimeError("Version mismatch:\n    Ray: 2.0.0\n    Python: 3.12.1\n")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=r"auto: Version.*Ray: 2\.0\.0 Python"):
        ray_cluster("auto").__enter__()

    # Nobody gave an address: it is no setting of the user's.
    with pytest.raises(RuntimeError, match="Version"):
        ray_cluster(None).__enter__()
