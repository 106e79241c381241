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

_DASHES = "\N{MINUS SIGN}"
_QUOTES = "`\N{ACUTE ACCENT}\N{SINGLE LOW-9 QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}"
"""Letters that stand for dashes and quotes, beside those that Unicode says are some."""

_NAMES = {"\r": "the carriage return of a file from Windows", "\n": "a line break", "\t": "a tab"}


def check_spelling(argv: Sequence[str]) -> None:
    """Refuse arguments that no script takes as they are, and say what is meant.

    These are spaces around an equals sign and in lists, letters that only look like those of a keyboard or like none,
    and a tilde that the shell has left. The name of a file that is there may look like anything.

    Args:
        argv: Arguments without the program's name.

    Raises:
        ConfigError: There is one.
    """
    for index, argument in enumerate(argv):
        if os.path.lexists(argument):
            continue
        _check_spaces(argument, argv[:index], argv[index + 1 :])
        _check_letters(argument)
        _check_home(argument)


def check_form(argument: str, names: Collection[str]) -> None:
    """Refuse a setting that is written as in other programs: ``+name=value``, ``~name``, ``name: value``, ``name``.

    Args:
        argument: What is no option.
        names: Settings that are known.

    Raises:
        ConfigError: It is one of these.
    """
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
    """Return why ``key=value`` is none in Hydra's grammar.

    Args:
        text: What was given.
        reason: What Hydra's parser says, which is returned where nothing better is known.
    """
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
    return _advice(letter[1], text) if _is_odd(letter[1]) or _is_wide(letter[1]) else f"{letter[1]} needs quotes there"


def _check_spaces(argument: str, before: Sequence[str], after: Sequence[str]) -> None:
    """Refuse a setting that was cut at its spaces."""
    if argument.startswith("="):
        value = argument.lstrip("=") or "".join(after[:1])
        if not before or "=" in before[-1]:
            raise ConfigError(f"{shown(argument)}: there is no name before =; settings are written key=value.")
        raise ConfigError(f"{shown(before[-1])} =: no spaces around =, {shown(before[-1])}={shown(value)}.")

    key, equals, value = argument.partition("=")
    if not equals:
        return
    if key != key.strip():
        raise ConfigError(f"{shown(argument)}: no spaces around =, {shown(key)}={shown(value)}.")
    if not value and after and "=" not in after[0] and not after[0].startswith("-"):
        raise ConfigError(f"{shown(argument)}: no spaces around =, {shown(argument + after[0])}.")
    whole = _until_closed(value, after)
    if whole != value:
        raise ConfigError(f"{shown(argument)}: a value ends at a space; without any, {shlex.quote(f'{key}={whole}')}.")


def _until_closed(value: str, after: Sequence[str]) -> str:
    """Return a value with the arguments after it that it lacks to its last bracket; the value alone where none does."""
    whole = value
    for part in after:
        if "=" in part or not _is_open(whole):
            break
        whole += part
    return value if _is_open(whole) else whole


def _is_open(text: str) -> bool:
    return text.endswith(",") or any(text.count(pair[0]) > text.count(pair[1]) for pair in _BRACKETS)


def _check_letters(argument: str) -> None:
    """Refuse letters that nobody types: in a name all of them, in a value, which may be a path, those at its ends."""
    key, equals, value = argument.partition("=")
    text = value if equals else argument
    if equals:
        odd = [letter for letter in key if _is_odd(letter) or _is_wide(letter)]
    else:
        odd = [letter for letter in text if unicodedata.normalize("NFKC", letter) == "="]
    if not os.path.lexists(text):
        odd += [letter for letter in text[:1] if _is_odd(letter)]
        odd += [letter for letter in text[-1:] if _is_invisible(letter)]
    if odd:
        raise ConfigError(f"{shown(argument)}: {_advice(odd[0], argument)}.")


def _is_invisible(letter: str) -> bool:
    # Bytes that are no text, "Cs", may be those of a file's name.
    return not letter.isprintable() and unicodedata.category(letter) != "Cs"


def _is_odd(letter: str) -> bool:
    """Tell a letter that nobody types: invisible, or a dash or a quote of a text processor."""
    return _is_invisible(letter) or _as_typed(letter) != letter


def _is_wide(letter: str) -> bool:
    """Tell a letter that is another form of one of a keyboard, such as a full-width equals sign."""
    return not letter.isascii() and unicodedata.normalize("NFKC", letter).isascii()


def _as_typed(letter: str) -> str:
    """Return a dash for every kind of dash, and nothing for every kind of quote; other letters as they are."""
    category = unicodedata.category(letter)
    if letter in _DASHES or (category == "Pd" and not letter.isascii()):
        return "-"
    return "" if letter in _QUOTES or category in ("Pi", "Pf") else letter


def _typed(argument: str) -> str:
    """Return an argument in the letters of a keyboard."""
    letters = "".join(_as_typed(letter) for letter in argument if not _is_invisible(letter))
    text = unicodedata.normalize("NFKC", letters)
    name = text.lstrip("-")
    # Text processors make one dash of two.
    return text if text == name else name if "=" in name else f"--{name}"


def _advice(letter: str, argument: str) -> str:
    name = _NAMES.get(letter) or unicodedata.name(letter, "a control character").lower()
    return f"{name} (U+{ord(letter):04X}) is in it, type {_typed(argument)}"


def _check_home(argument: str) -> None:
    """Refuse a tilde that the shell did not replace, as it does so at the beginning of a word alone."""
    key, equals, value = argument.partition("=")
    path = value if equals else argument
    full = os.path.expanduser(path)
    if "/" in path and full != path and not os.path.lexists(path):
        meant = f"{key}={full}" if equals else full
        raise ConfigError(f"{shown(argument)}: the shell leaves ~ as it is there; give {meant}.")
