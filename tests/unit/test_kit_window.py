# SPDX-License-Identifier: BSD-3-Clause
"""The window in Isaac Sim, with a stand-in for Kit's ``omni``: it has never been run in Kit."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from isaaclab_pc.launch.task_names import our_tasks

ROOT = Path(__file__).resolve().parents[2]
MODULE = "isaaclab_pc.kit_window"
CONFIG = tomllib.loads((ROOT / "extension.toml").read_text(encoding="utf-8"))


class Container:
    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakeKit:
    """Kit's interface as far as the window uses it, and what a user sees and does."""

    def __init__(self) -> None:
        self.windows: list[str] = []
        self.labels: list[SimpleNamespace] = []
        self.buttons: list[tuple[str, Callable[[], None]]] = []
        self.clipboard = ""
        self.choices: tuple[str, ...] = ()
        self._chosen = SimpleNamespace(as_int=0)
        self._changed: list[Callable[..., None]] = []

    def modules(self) -> dict[str, ModuleType]:
        contents = {
            "omni": {},
            "omni.ext": {"IExt": type("IExt", (), {})},
            "omni.kit": {},
            "omni.kit.clipboard": {"copy": lambda text: setattr(self, "clipboard", text)},
            "omni.ui": {
                **{"Window": self._window, "ComboBox": self._combo_box, "Label": self._label, "Button": self._button},
                **{"VStack": lambda **_: Container(), "HStack": lambda **_: Container()},
            },
        }
        modules = {}
        for name, content in contents.items():
            modules[name] = ModuleType(name)
            vars(modules[name]).update(content)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(modules[parent], child, modules[name])
        return modules

    def choose(self, task: str) -> None:
        self._chosen.as_int = self.choices.index(task)
        for function in self._changed:
            function(None, None)

    def text(self) -> str:
        return "\n".join(label.text for label in self.labels)

    def _window(self, title: str, **_: object) -> SimpleNamespace:
        self.windows.append(title)
        return SimpleNamespace(frame=Container(), destroy=lambda: self.windows.remove(title))

    def _combo_box(self, chosen: int, *choices: str) -> SimpleNamespace:
        self._chosen.as_int = chosen
        self.choices = choices
        model = SimpleNamespace(get_item_value_model=lambda: self._chosen, add_item_changed_fn=self._changed.append)
        return SimpleNamespace(model=model)

    def _label(self, text: str, **_: object) -> SimpleNamespace:
        self.labels.append(SimpleNamespace(text=text))
        return self.labels[-1]

    def _button(self, text: str, *, clicked_fn: Callable[[], None], **_: object) -> None:
        self.buttons.append((text, clicked_fn))


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeKit]:
    monkeypatch.chdir(tmp_path)
    kit = FakeKit()
    for name, module in kit.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    yield kit
    sys.modules.pop(MODULE, None)


@pytest.fixture
def window(kit: FakeKit):
    window = importlib.import_module(MODULE).TaskWindow()
    window.on_startup("isaaclab_pc-0.1.0")
    return window


def test_it_shows_the_tasks_and_how_to_start_the_first(kit: FakeKit, window):
    first = next(iter(our_tasks()))
    assert kit.windows == ["Isaac Lab Point Clouds"]
    assert kit.choices == tuple(our_tasks())
    assert f"python scripts/train.py task={first}" in kit.text()


def test_the_commands_follow_the_task_and_are_copied(kit: FakeKit, window):
    kit.choose("push")
    copies = [press for text, press in kit.buttons if text == "Copy"]
    for press, script in zip(copies, ("train", "view"), strict=True):
        press()
        assert kit.clipboard == f"python scripts/{script}.py task=push"


def test_it_finds_the_newest_runs_of_the_task(kit: FakeKit, window, tmp_path: Path):
    kit.choose("push")
    assert f"no run of push below {tmp_path / 'logs'} yet" in kit.text()

    for path in (
        "rsl_rl/push/2026-01-01",
        "skrl/push_state/2026-03-01",
        "rsl_rl/push_it/2026-04-01",
        "rsl_rl/lift/2026",
    ):
        run = tmp_path / "logs" / path
        run.mkdir(parents=True)
        (run / "run.json").touch()
    dict(kit.buttons)["Look for runs again"]()
    assert kit.labels[-1].text.splitlines() == [
        "newest runs:",
        str(tmp_path / "logs/skrl/push_state/2026-03-01"),
        str(tmp_path / "logs/rsl_rl/push/2026-01-01"),
    ]


def test_disabling_the_extension_removes_the_window(kit: FakeKit, window):
    window.on_shutdown()
    assert kit.windows == []


def test_kit_is_told_of_the_tasks_and_the_window():
    assert [module["name"] for module in CONFIG["python"]["module"]] == ["isaaclab_pc.tasks", MODULE]


def test_no_dependency_is_required_that_only_isaac_labs_repository_has():
    required = {name for name, options in CONFIG["dependencies"].items() if not options.get("optional")}
    assert required == {"omni.ui", "omni.kit.clipboard"}
