# SPDX-License-Identifier: BSD-3-Clause
"""Dataclasses that travel as JSON between processes, and are checked when they are read."""

import functools
import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from isaaclab_pc.utils.files import write_text_atomically

Count = Annotated[int, Field(ge=0)]
"""A whole number of at least 0."""
Size = Annotated[int, Field(ge=1)]
"""A whole number of at least 1."""
NonNegative = Annotated[float, Field(ge=0)]
"""A finite number of at least 0."""


class JsonRecord:
    """Base class of frozen dataclasses that are written as JSON by one process and read by another.

    Constructing one checks nothing. Reading checks every field against its annotation, those of nested dataclasses
    included: no conversions (``true`` is no number and ``"1"`` neither), no numbers that are not finite, no keys that
    are no field. Whoever wrote the file is not trusted.
    """

    # Nested dataclasses and typed dictionaries without a config of their own are read by the same rules.
    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return this record as plain JSON values: dictionaries, lists, strings, numbers, booleans and None."""
        return _adapter(type(self)).dump_python(self, mode="json")

    def to_json(self) -> str:
        """Return this record as the text of a JSON file."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        # Text that came from a file name may hold lone surrogates, which no UTF-8 file can.
        return text.encode("utf-8", "replace").decode("utf-8")

    def write(self, path: Path) -> None:
        """Write this record as a JSON file, all of it or nothing."""
        write_text_atomically(path, self.to_json())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a record from JSON, UTF-8 where it is bytes, and check it.

        Raises:
            ValueError: It is not JSON, or not such a record. The message is one line and names the field.
        """
        try:
            return _adapter(cls).validate_json(text)
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record from a JSON file; raises OSError, or ValueError as :meth:`from_json` does."""
        return cls.from_json(path.read_bytes())

    @classmethod
    def read_or_none(cls, path: Path) -> Self | None:
        """Read a record from a JSON file; None where there is none, or its writer is not done with it."""
        try:
            return cls.read(path)
        except (OSError, ValueError):
            return None


@functools.cache
def _adapter(record_type: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(record_type)


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong as one line, the path of its field in front."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if problem["type"] == "json_invalid":
        return f"not JSON: {problem['msg'].removeprefix('Invalid JSON: ')}"

    path = ".".join(str(part) for part in problem["loc"])
    return f"{path}: {problem['msg']}" if path else problem["msg"]
