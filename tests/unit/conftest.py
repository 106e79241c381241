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


@pytest.fixture
def interpreter(monkeypatch):
    """Run all launches of Warp kernels in the interpreter of their PTX, in blocks of 256 threads."""
    # Late: most tests need no Warp.
    from tests.ptx.launches import Interpreter

    return Interpreter(monkeypatch)
