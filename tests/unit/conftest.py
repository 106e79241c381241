# SPDX-License-Identifier: BSD-3-Clause
"""What tests of several rooms share."""

import pytest

from isaaclab_pc.run import visualizers
from isaaclab_pc.run.visualizers import VISUALIZERS
from tests.fake_nvml import FakeNvml, equal_gpus


@pytest.fixture
def has_visualizers(monkeypatch):
    """Make exactly these visualizers look installed, on a machine without a display."""
    monkeypatch.delenv("DISPLAY", raising=False)

    def pretend(*names):
        modules = [VISUALIZERS[name][0] for name in names]
        monkeypatch.setattr(visualizers, "is_installed", lambda module: module in modules)

    return pretend


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver in place of the machine's: two GPUs, 1 GiB of 8 GiB of each used, until a test gives it others."""
    fake = FakeNvml(equal_gpus(2))
    fake.install(monkeypatch)
    return fake
