# SPDX-License-Identifier: BSD-3-Clause
from importlib import metadata

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch import platform as requirements
from isaaclab_pc.launch.platform import check_isaaclab


@pytest.mark.parametrize("version", ["2.3.0", "3.1.0", "4.0"])
def test_another_isaac_lab_is_refused(monkeypatch, version):
    monkeypatch.setattr(requirements.metadata, "version", lambda _: version)
    with pytest.raises(ConfigError, match=rf"Isaac Lab {version} is installed, 3\.0\.x is needed"):
        check_isaaclab()


def test_a_missing_isaac_lab_is_refused(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(requirements.metadata, "version", missing)
    with pytest.raises(ConfigError, match="not installed"):
        check_isaaclab()


def test_the_isaac_lab_of_this_installation_passes():
    check_isaaclab()
