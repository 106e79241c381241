# SPDX-License-Identifier: BSD-3-Clause
"""Plugins of Hydra that are broken; those of Isaac Lab, packages of tasks, are in test_task_names.py."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton

from isaaclab_pc.cli.compose import compose, store_settings

BROKEN = {
    "zz_python": ("def", "SyntaxError: "),
    "zz_exits": ("raise SystemExit('get a licence')", "SystemExit: get a licence"),
    "zz_raises": ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
}


@pytest.fixture
def scans_again(monkeypatch):
    """Let Hydra look for its plugins once more, and forget them afterwards."""
    # Without what composing changes in place, so that the instances from before stay as they are.
    others = {kind: one for kind, one in Singleton._instances.items() if kind not in (Plugins, GlobalHydra)}
    monkeypatch.setattr(Singleton, "_instances", others)
    store_settings.cache_clear()
    yield
    for name in [name for name in sys.modules if name.startswith("hydra_plugins.zz_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("scans_again")
def test_broken_plugins_of_hydra_are_named_once_and_settings_compose_without_them(tmp_path, monkeypatch, capsys):
    (tmp_path / "hydra_plugins").mkdir()
    for name, (code, _) in BROKEN.items():
        (tmp_path / "hydra_plugins" / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    for _ in range(2):
        assert compose(["task=reach", "seed=7"]).seed == 7
    warnings = capsys.readouterr().err.splitlines()
    for name, (_, error) in BROKEN.items():
        (warning,) = [line for line in warnings if f"hydra_plugins.{name} " in line]
        assert error in warning
    assert len(warnings) == len(BROKEN)


@pytest.mark.usefixtures("scans_again")
def test_a_signal_while_plugins_are_imported_is_no_fault_of_theirs(tmp_path, monkeypatch):
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "zz_slow.py").write_text("raise SystemExit(143)", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit) as caught:
        store_settings()
    assert caught.value.code == 143
