# SPDX-License-Identifier: BSD-3-Clause
"""What tests of several rooms share."""

import pytest

from isaaclab_pc.launch import visualizers
from isaaclab_pc.launch.visualizers import VISUALIZERS


@pytest.fixture
def has_visualizers(monkeypatch):
    """Make exactly these visualizers look installed, on a machine without a display."""
    monkeypatch.delenv("DISPLAY", raising=False)

    def pretend(*names):
        modules = [VISUALIZERS[name].module for name in names]
        monkeypatch.setattr(visualizers, "is_installed", lambda module: module in modules)

    return pretend
