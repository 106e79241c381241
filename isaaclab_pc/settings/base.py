# SPDX-License-Identifier: BSD-3-Clause
"""Base of all groups of settings: strict checks, and messages that name the setting and its type."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin

from annotated_types import Unit
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from isaaclab_pc.errors import ConfigError, closest

_STRICT = ConfigDict(strict=True)

_LONGEST_SHOWN = 80
"""Characters of a refused value that a message shows."""


@dataclass(frozen=True)
class Expects:
    """Words for the values of a type, as metadata of a field's type."""

    text: str
    """The end of the sentence "expected ..."."""

    choices: tuple[str, ...] = ()
    """Names that it takes, for the near ones in messages."""


class Settings(BaseModel):
    """A group of settings: checked when it is made, and not changed after that.

    Numbers are not taken for text, nor text for numbers. The string below a field is its documentation everywhere: in
    ``--help``, in docs/settings.md and here.

    Raises:
        ConfigError: A setting is unknown, or its value is refused; the message names the first one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    group: ClassVar[str] = ""
    """Name of the group in a run's settings."""

    if not TYPE_CHECKING:  # type checkers read the arguments off the fields

        def __init__(self, **values: Any) -> None:
            """Check the values."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigError(_explain(type(self), values, error)) from None

    def flat(self) -> dict[str, Any]:
        """Return the values by dotted name, such as ``physics.dt``."""
        return flatten(self.model_dump())

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return the same settings with some other values, by dotted name, checked.

        Raises:
            ConfigError: A name is unknown, or a value is refused.
        """
        data = self.model_dump()

        for key, value in values.items():
            *groups, name = key.split(".")
            node = data
            for group in groups:
                if not isinstance(node.get(group), dict):
                    raise ConfigError(f"{key} is not a setting: {closest(key, settings_of(type(self)))}")
                node = node[group]
            node[name] = value

        return type(self)(**data)


class ScriptSettings(Settings):
    """Settings that one script has and no run; they are read off the command line as text."""

    model_config = ConfigDict(strict=False)


class Setting(NamedTuple):
    """One setting of a schema."""

    key: str
    """Dotted name."""

    field: FieldInfo
    """Its type, default and documentation."""

    @property
    def type(self) -> Any:
        """The type with all of its metadata."""
        return (
            Annotated[(self.field.annotation, *self.field.metadata)] if self.field.metadata else self.field.annotation
        )

    @property
    def meaning(self) -> str:
        """The documentation, on one line."""
        return " ".join((self.field.description or "").split())


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted name, with ``prefix`` in front of each."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


@functools.cache
def settings_of(model: type[Settings]) -> Mapping[str, Setting]:
    """Return all settings of a schema by dotted name, those of nested groups included."""
    found: dict[str, Setting] = {}
    for name, field in model.model_fields.items():
        if _is_group(field.annotation):
            for key, setting in settings_of(field.annotation).items():
                found[f"{name}.{key}"] = Setting(f"{name}.{key}", setting.field)
        else:
            found[name] = Setting(name, field)
    return types.MappingProxyType(found)


def check_value(setting: Setting, value: Any) -> None:
    """Check one value without the other settings; ConfigError names the setting, the value and its type."""
    try:
        TypeAdapter(setting.type, config=_STRICT).validate_python(value)
    except ValidationError:
        raise ConfigError(_refusal(setting, value)) from None


def _explain(model: type[Settings], values: Mapping[str, Any], error: ValidationError) -> str:
    """Return one sentence about the first thing that is wrong."""
    first: Any = error.errors()[0]
    if first["type"] == "value_error" and isinstance(first["ctx"]["error"], ConfigError):
        # A nested group, or a check of several settings together, has said it all.
        return str(first["ctx"]["error"])

    name = str(first["loc"][0])
    key = f"{model.group}.{name}" if model.group else name
    if first["type"] == "extra_forbidden":
        prefix = f"{model.group}." if model.group else ""
        return f"{shown(key)} is not a setting: {closest(key, [prefix + known for known in settings_of(model)])}"
    field = model.model_fields[name]
    # pydantic names the part of a list that is wrong; the message shows the whole value.
    value = values[name]
    if _is_group(field.annotation):
        return f"{key}={shown(value)}: expected a group of settings."
    return _refusal(Setting(key, field), value)


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _refusal(setting: Setting, value: Any) -> str:
    choices = choices_of(setting.type)
    given = value if isinstance(value, list) else [value]
    wrong = [name for name in given if isinstance(name, str) and name not in choices]
    near = closest(wrong[0], choices) if wrong and choices else ""

    hint = f"; {near}" if near.startswith("did") else "."
    return f"{setting.key}={shown(value)}: expected {describe_type(setting.type)}{hint}"


def shown(value: Any) -> str:
    """Render a refused value for a message: on one line, cut where it is long, bytes that are no text escaped."""
    if value is None:
        return "null"
    text = " ".join(str(value).split()).encode("utf-8", "backslashreplace").decode("utf-8")
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def describe_type(kind: Any) -> str:
    """Return the end of the sentence "expected ..." for a field's type with its metadata.

    It may be a number with bounds and a unit, ``Literal``, a union, a list, or say by :class:`Expects` what it
    is.
    """
    base, metadata = _unpacked(kind)
    if told := [part.text for part in metadata if isinstance(part, Expects)]:
        return told[0]
    if get_origin(base) in (Union, types.UnionType):
        members = sorted(get_args(base), key=lambda member: member is not type(None))
        return ", or ".join(describe_type(member) for member in members)
    if get_origin(base) is Literal:
        names = [str(name) for name in get_args(base)]
        return names[0] if len(names) == 1 else "one of " + ", ".join(names)
    if get_origin(base) is list:
        return f"a list of {describe_type(get_args(base)[0])}"
    if base in (int, float):
        return _describe_number("a whole number" if base is int else "a number", metadata)
    return {list: "a list", type(None): "null", bool: "true or false"}.get(base, "text")


def _describe_number(noun: str, metadata: Sequence[Any]) -> str:
    bounds: dict[str, Any] = {
        name: getattr(part, name) for part in metadata for name in ("gt", "ge", "le") if hasattr(part, name)
    }
    least: Any = bounds.get("ge", bounds.get("gt"))
    most: Any = bounds.get("le")

    if "ge" in bounds and most is not None:
        words = f" from {_number(least)} to {_number(most)}"
    else:
        words = "" if least is None else f" {'of at least' if 'ge' in bounds else 'above'} {_number(least)}"
        words += "" if most is None else f"{' and' if words else ''} at most {_number(most)}"
    unit = next((f" {part.unit}" for part in metadata if isinstance(part, Unit)), "")
    return f"{noun}{words}{unit}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def choices_of(kind: Any) -> tuple[str, ...]:
    """Return the names that a type, as for :func:`describe_type`, takes."""
    base, metadata = _unpacked(kind)
    found = [name for part in metadata if isinstance(part, Expects) for name in part.choices]
    if get_origin(base) is Literal:
        found += [str(name) for name in get_args(base)]
    elif get_origin(base) in (Union, types.UnionType, list):
        found += [name for member in get_args(base) for name in choices_of(member)]
    return tuple(found)


def _unpacked(kind: Any) -> tuple[Any, list[Any]]:
    """Return a type without its metadata, and the metadata; pydantic packs bounds into a field of their own."""
    if get_origin(kind) is not Annotated:
        return kind, []
    base, *metadata = get_args(kind)
    unpacked = []
    for part in metadata:
        unpacked.extend(part.metadata if isinstance(part, FieldInfo) else [part])
    return base, unpacked
