# SPDX-License-Identifier: BSD-3-Clause
"""The settings for people: the tables of ``--help``, and docs/settings.md (``python -m isaaclab_pc.cli.help``)."""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import Setting, Settings, describe_type, settings_of
from isaaclab_pc.settings.run import SETTINGS

_WIDTH = 118
_NAME_WIDTH = 30
_DEFAULT_WIDTH = 12


def settings_table(
    shows: Callable[[str], bool] = lambda key: True,
    own: type[Settings] | None = None,
    instead: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> str:
    """Render settings for a help page: name, default and meaning, each group under the sentence that describes it.

    Those of ``own``, which only the script has, come first; then those of a run that ``shows`` tells by dotted name.
    ``instead`` has default and meaning of what means something else here than in training.
    """
    sections = {} if own is None else {_title(own): list(settings_of(own).values())}
    sections |= _sections({key: setting for key, setting in SETTINGS.items() if shows(key)})
    return "\n\n".join(
        "\n".join([title, *(_help_lines(setting, instead.get(setting.key)) for setting in settings)])
        for title, settings in sections.items()
    )


def _help_lines(setting: Setting, instead: tuple[str, str] | None) -> str:
    default, meaning = instead or (_default(setting), _plain(setting.meaning) + _takes(setting))
    head = f"  {setting.key:{_NAME_WIDTH}} {default:{_DEFAULT_WIDTH}}"
    text = textwrap.wrap(meaning, _WIDTH - len(head) - 1)
    return "\n".join([f"{head} {text[0]}", *(" " * (len(head) + 1) + line for line in text[1:])])


def _takes(setting: Setting) -> str:
    """Say what a setting takes, where its default and its meaning do not tell."""
    # Where the default is null, the line says that null is taken.
    takes = describe_type(setting.type).removeprefix("null, or ")
    told = _words(f"{setting.meaning} {_default(setting)}")
    return "" if takes == "text" or _words(takes) <= told | {"one", "of", "a", "or"} else f" Takes {takes}."


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def settings_page() -> str:
    """Render all settings of a run as a page of Markdown."""
    lines = [
        "# Settings",
        "",
        "Every setting of a run; what a script takes besides, its `--help` shows. They are written",
        "`key=value`. `null` leaves a value to the task or the agent. Beside them stand all fields of the task's",
        "config, `env.*` ([those most often of use](tasks.md)), and of the agent's, `agent.*`. This page is made from",
        "`isaaclab_pc/settings` by `python -m isaaclab_pc.cli.help > docs/settings.md`.",
    ]
    for title, settings in _sections(SETTINGS).items():
        lines += ["", f"## {title.rstrip('.')}", "", "| Setting | Default | Meaning | Takes |", "|---|---|---|---|"]
        for setting in settings:
            cells = (f"`{setting.key}`", f"`{_default(setting)}`", setting.meaning, describe_type(setting.type))
            lines.append(f"| {' | '.join(cell.replace('``', '`').replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _sections(settings: Mapping[str, Setting]) -> dict[str, list[Setting]]:
    """Sort settings by group; the title of a group is the first sentence of its class."""
    sections: dict[str, list[Setting]] = {}
    for setting in settings.values():
        group = setting.key.rpartition(".")[0]
        title = _title(RunSettings.model_fields[group].annotation) if group else "The run"
        sections.setdefault(title, []).append(setting)
    return sections


def _title(group: Any) -> str:
    return _plain((inspect.getdoc(group) or "").splitlines()[0])


def _default(setting: Setting) -> str:
    default = setting.field.default
    return "null" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def _plain(text: str) -> str:
    return text.replace("``", "")


if __name__ == "__main__":
    print(settings_page(), end="")
