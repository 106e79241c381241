# SPDX-License-Identifier: BSD-3-Clause
"""Reads PTX, the assembly language that NVIDIA's compiler hands to the assembler of each GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPE_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}

Operand = str | tuple[str, ...]
"""As written; a vector ``{a, b}`` and a pair ``a|b`` are tuples of their parts."""


class UnknownPtxError(NotImplementedError):
    """Something in PTX that this interpreter does not know."""


@dataclass(frozen=True)
class Address:
    """``[base+offset]``."""

    base: str
    """A register or a symbol."""
    offset: int


@dataclass(frozen=True)
class Instruction:
    """One instruction, with its guard ``@%p`` or ``@!%p``."""

    text: str
    opcode: tuple[str, ...]
    """The parts of ``add.rn.f32``."""
    operands: tuple[Operand | Address, ...]
    guard: str | None
    guard_is_negated: bool
    line: str
    """File and line of the kernel's source."""


@dataclass
class Entry:
    """A kernel."""

    name: str
    param_bytes: list[int] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    """Type of each prefix of registers, such as ``b32`` of ``%r``."""
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Alignment and size of each shared variable [bytes]."""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Index of the first instruction after each label."""


@dataclass
class Module:
    """A file of PTX."""

    entries: dict[str, Entry] = field(default_factory=dict)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Shared variables outside of kernels: alignment and size [bytes], 0 for what the launch gives a size."""


_VARIABLE = re.compile(r"(?:\.extern )?\.(?:shared|param)(?: \.align (\d+))? \.[a-z](\d+)\s+([\w$]+)(\[(\d*)\])?")
_REGISTERS = re.compile(r"\.reg \.(\w+)\s+(%[a-z]+)<\d+>;")
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"(\$\w+):")
_IGNORED = re.compile(
    r"\.(version|target|address_size|const|global|file|visible|maxntid|minnctapersm|pragma)\b|[(){},]*$"
)


def parse(text: str) -> Module:
    """Read the kernels of a file.

    Raises:
        UnknownPtxError: A line is not understood.
    """
    module = Module()
    entry = None
    # Those of Warp's own code say nothing to a reader of the kernel.
    files = dict(re.findall(r'\.file\s+(\d+) ".*?([^/"]+\.py)"', text))
    line = "unknown line"
    in_body = False
    # The compiler ends the file with a zero, as a string of C.
    for raw in text.rstrip("\0").partition("\n\t.section")[0].splitlines():
        code = raw.partition("//")[0].strip()
        # An instruction of inline assembly has a block of its own.
        if code.startswith("{") and code.endswith("}"):
            code = code[1:-1].strip()

        if match := re.match(r"\.(?:visible )?\.?entry (\w+)", code):
            entry = Entry(match[1])
            module.entries[entry.name] = entry
            in_body = False
        elif match := re.match(r"\.loc\s+(\d+) (\d+)", code):
            line = f"{files[match[1]]}:{match[2]}" if match[1] in files else line
        elif match := _VARIABLE.match(code):
            _add_variable(module, entry if entry is None or in_body or ".param" in code else None, match)
        elif code == "{" and entry is not None:
            in_body = True
        elif code == "}":
            entry = None
        elif entry is not None and in_body and not code.startswith("."):
            _add_code(entry, code, line)
        elif entry is not None and (match := _REGISTERS.match(code)):
            entry.registers[match[2]] = match[1]
        elif not _IGNORED.match(code):
            raise UnknownPtxError(raw)
    return module


def _add_variable(module: Module, entry: Entry | None, match: re.Match[str]) -> None:
    alignment, bits, name, brackets, count = match.groups()
    size = TYPE_BYTES[bits] * (int(count or 0) if brackets else 1)
    if ".param" in match[0]:
        assert entry is not None
        entry.param_bytes.append(size)
    else:
        (module if entry is None else entry).shared[name] = (int(alignment or 1), size)


def _add_code(entry: Entry, code: str, line: str) -> None:
    if not code:
        return
    if match := _LABEL.fullmatch(code):
        entry.labels[match[1]] = len(entry.instructions)
        return
    match = _INSTRUCTION.fullmatch(code)
    if match is None:
        raise UnknownPtxError(code)
    negated, guard, opcode, operands = match.groups()
    parts = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", operands)
    entry.instructions.append(
        Instruction(code, tuple(opcode.split(".")), tuple(map(_operand, parts)), guard, negated == "!", line)
    )


def _operand(text: str) -> Operand | Address:
    if text.startswith("["):
        base, _, offset = text[1:-1].partition("+")
        return Address(base, int(offset or 0))
    if text.startswith("{"):
        return tuple(part.strip() for part in text[1:-1].split(","))
    return tuple(text.split("|")) if "|" in text else text
