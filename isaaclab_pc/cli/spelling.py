# SPDX-License-Identifier: BSD-3-Clause
"""Slips of a command line: what shells, editors and habits of other programs make of settings, and what is meant."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Collection, Sequence

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import shown

__all__ = ["check_form", "check_spelling", "why_unreadable"]

_BRACKETS = ("()", "[]", "{}")

_MINUS = "\N{MINUS SIGN}"
_QUOTES = "`\N{ACUTE ACCENT}\N{SINGLE LOW-9 QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}"
"""Letters that stand for a dash and for quotes, beside those that Unicode says are some."""

_NAMES = {"\r": "the carriage return of a file from Windows", "\n": "a line break", "\t": "a tab"}


def check_spelling(argv: Sequence[str]) -> None:
    """Refuse arguments that no script takes as they are, and say what is meant.

    These are spaces around an equals sign and in lists, letters that only look like those of a keyboard or like none,
    and a tilde that the shell has left. The name of a file that is there may look like anything.

    Raises:
        ConfigError: There is one.
    """
    for index, argument in enumerate(argv):
        if not os.path.lexists(argument):
            _check_spaces(argument, argv[index + 1 :])
            _check_letters(argument)
            _check_home(argument)


def check_form(argument: str, names: Collection[str]) -> None:
    """Refuse a setting that is written as in other programs: ``+name=value``, ``~name``, ``name: value``, ``name``."""
    if os.path.lexists(argument):
        return
    if argument[:1] in ("+", "~"):
        raise ConfigError(
            f"{shown(argument)}: + and ~ have no use here; settings are written key=value, and have their defaults "
            "where they are left out."
        )
    name, _, value = argument.partition(":")
    if "=" not in name and name.strip() in names:
        raise ConfigError(
            f"{shown(argument)}: settings are written key=value, {name.strip()}={shown(value.strip() or '<value>')}."
        )


def why_unreadable(text: str, reason: str) -> str:
    """Return why ``key=value`` is none in Hydra's grammar: Hydra's own reason where nothing better is known."""
    key, _, value = text.partition("=")
    if value.startswith("="):
        return f"one = is enough, {key}={value.lstrip('=')}"
    if any(value.count(quote) % 2 for quote in "'\""):
        return "a quote is not closed"
    if any(value.count(pair[0]) != value.count(pair[1]) for pair in _BRACKETS):
        return "a bracket is not closed, or closed twice"
    if value.rstrip().endswith(","):
        return "there is a comma at its end"
    if re.search(r",\s*[A-Za-z][\w.]*=", value):
        return "settings are separated by spaces, not by commas"
    letter = re.search(r"token recognition error at: '(.)", reason, re.DOTALL)
    if letter is None:
        return reason
    return f"{letter[1]} needs quotes there" if _typed(letter[1]) == letter[1] else _advice(letter[1], text)


def _check_spaces(argument: str, after: Sequence[str]) -> None:
    """Refuse a setting that the shell cut at its spaces, and name the whole one."""
    if argument.startswith("="):
        raise ConfigError(f"{shown(argument)}: there is no name before =; settings are written key=value.")

    whole = argument
    for part in after:
        is_sign = part.startswith("=") and "=" not in whole
        is_value = whole.endswith("=") or ("=" in whole and _is_open(whole))
        if not is_sign and not (is_value and "=" not in part and not part.startswith("-")):
            break
        whole += part
    key, equals, value = whole.partition("=")
    if (whole != argument and not _is_open(value)) or (equals and key != key.strip()):
        meant = shlex.quote(f"{key.strip()}={value.lstrip('=')}")
        raise ConfigError(f"{shown(argument)}: no spaces around = or in a value; give {shown(meant)}.")


def _is_open(text: str) -> bool:
    return text.endswith(",") or any(text.count(pair[0]) > text.count(pair[1]) for pair in _BRACKETS)


def _check_letters(argument: str) -> None:
    """Refuse letters that nobody types: in a name all of them, in a value, which may be a path, those at its ends."""
    key, equals, value = argument.partition("=")
    text = value if equals else argument
    # Without an equals sign there is no name, unless another letter stands for it.
    odd = [letter for letter in key if _typed(letter) == "=" or (equals and _typed(letter) != letter)]
    if not os.path.lexists(text):
        odd += [letter for letter in text[:1] + text[-1:] if _plain(letter) != letter]
    if odd:
        raise ConfigError(f"{shown(argument)}: {_advice(odd[0], argument)}.")


def _plain(letter: str) -> str:
    """Return a dash for every kind of dash, and nothing for a quote or what is invisible; other letters as they are."""
    category = unicodedata.category(letter)
    if letter == _MINUS or (category == "Pd" and not letter.isascii()):
        return "-"
    # Bytes that are no text, "Cs", may be those of a file's name.
    is_invisible = not letter.isprintable() and category != "Cs"
    return "" if is_invisible or letter in _QUOTES or category in ("Pi", "Pf") else letter


def _typed(letter: str) -> str:
    """Return a letter as a keyboard has it, such as an equals sign for a full-width one."""
    typed = unicodedata.normalize("NFKC", _plain(letter))
    return typed if typed.isascii() else letter


def _advice(letter: str, argument: str) -> str:
    """Name a letter, and give the argument in those of a keyboard."""
    what = _NAMES.get(letter) or unicodedata.name(letter, "a control character").lower()
    text = "".join(map(_typed, argument))
    name = text.lstrip("-")
    # Text processors make one dash of two.
    if text != name:
        text = name if "=" in name else f"--{name}"
    return f"{what} (U+{ord(letter):04X}) is in it, type {text}"


def _check_home(argument: str) -> None:
    """Refuse a tilde that the shell did not replace, as it does so at the beginning of a word alone."""
    key, equals, value = argument.partition("=")
    path = value if equals else argument
    full = os.path.expanduser(path)
    if "/" in path and full != path and not os.path.lexists(path):
        meant = f"{key}={full}" if equals else full
        raise ConfigError(f"{shown(argument)}: the shell leaves ~ as it is there; give {meant}.")
