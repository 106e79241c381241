# SPDX-License-Identifier: BSD-3-Clause
"""Pages pass over ports on which others listen, and say so."""

import socket

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.viewer.web_address import free_port, host_name


@pytest.fixture
def taken():
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_is_taken_is_passed_over_and_it_is_said(taken, host, capsys):
    port = free_port(host, taken)
    assert port > taken
    assert capsys.readouterr().out == f"note: port {taken} is taken, {port} is the next free one\n"
    with socket.create_server((host, port)):
        pass


def test_a_free_port_is_taken_without_a_word(taken, capsys):
    port = free_port("127.0.0.1", taken)
    capsys.readouterr()
    assert free_port("127.0.0.1", port) == port
    assert capsys.readouterr().out == ""


def test_where_nobody_may_listen_it_says_what_to_give():
    with pytest.raises(ConfigError, match=r"port=8080 host=192\.0\.2\.1: cannot listen there"):
        free_port("192.0.2.1", 8080)
    with socket.create_server(("127.0.0.1", 65535)), pytest.raises(ConfigError, match=r"port=65535.* a lower port"):
        free_port("127.0.0.1", 65535)


def test_a_browser_gets_a_name_that_it_can_open():
    assert host_name("127.0.0.1") == "localhost"
    assert host_name("0.0.0.0") == socket.gethostname()
    assert host_name("10.0.0.7") == "10.0.0.7"
