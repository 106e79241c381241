# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoint files: written atomically, and read without running code.

A checkpoint is what ``torch.save`` writes (a zip archive) with one more member, ``header.json``, which says what the
weights belong to and is read without torch. The state holds tensors, numbers, strings, lists and dicts only, so that
``weights_only=True`` reads it: a file from a stranger can hold wrong values, but no code. The archive has a checksum of
each member (CRC-32), and none is compressed, so that none is larger than the file.
"""

import json
import pickle
import random
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.files import write_atomically

if TYPE_CHECKING:
    import torch

FORMAT = 1
"""Version of the file format; another one is refused."""

# torch.save names the archive's folder "archive" when it writes to an open file. torch.load reads no member outside it.
_HEADER = "archive/header.json"

_MAX_HEADER_BYTES = 1 << 20
"""A header has a few hundred bytes; this is what is read at most."""

# What zipfile raises for archives that are damaged, encrypted or compressed by unknown methods, and json for nesting.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, KeyError, ValueError)


class NonFiniteError(ValueError):
    """A checkpoint to be saved holds NaN or inf: training would not recover from it."""


def read_header(path: Path) -> dict[str, Any]:
    """Read the header of a checkpoint, without torch and without unpickling anything.

    Returns:
        The header: ``format``, ``runner``, ``iteration``, ``observations``, ``num_actions`` and what the caller of
        ``Runner.save`` added.

    Raises:
        ConfigError: There is no such file, or it is no checkpoint of this project.
    """
    if not path.is_file():
        raise ConfigError(f"checkpoint {path} does not exist")

    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_HEADER).file_size > _MAX_HEADER_BYTES:
                raise ValueError("its header is too large")
            header = json.loads(archive.read(_HEADER))
    except _UNREADABLE as error:
        raise ConfigError(f"{path} is not a checkpoint of isaaclab_pc ({error}): nothing was loaded") from error

    if not isinstance(header, dict):
        raise ConfigError(f"{path} is not a checkpoint of isaaclab_pc (its header is no object): nothing was loaded")
    if header.get("format") != FORMAT:
        raise ConfigError(f"{path} has checkpoint format {header.get('format')!r}, this version reads format {FORMAT}")

    return header


def check_intact(path: Path) -> dict[str, Any]:
    """Refuse a checkpoint if its bytes have changed since it was written; reads all of it, without torch.

    Returns:
        The header; see :func:`read_header`.

    Raises:
        ConfigError: There is no such file, it is no checkpoint, or a member differs from its checksum.
    """
    header = read_header(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ValueError("it is compressed")
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} differs from its checksum")
    except _UNREADABLE as error:
        raise ConfigError(f"checkpoint {path} is damaged ({error}): nothing was loaded") from error
    return header


def check_header(header: Mapping[str, Any], expected: Mapping[str, Any], path: Path) -> None:
    """Refuse a checkpoint that belongs to another task, runner or observation; keys that it lacks are not compared.

    Raises:
        ConfigError: A value differs; the message names both.
    """
    for key, value in expected.items():
        if key in header and header[key] != value:
            raise ConfigError(f"checkpoint {path} has {key}={header[key]}, this run has {key}={value}")


def check_weights(path: Path, current: Mapping[str, Mapping[str, Any]], loaded: Any) -> None:
    """Refuse weights of other networks before any of them is copied.

    ``current`` are the state dicts of this run's networks by name, ``loaded`` those of the checkpoint, of which further
    entries are not compared.

    Raises:
        ConfigError: A tensor is missing, added or of another shape; the message names the first one.
    """
    for network, weights in current.items():
        here = _shapes(weights)
        there = _shapes(loaded.get(network) if isinstance(loaded, Mapping) else None)

        for key in sorted(here.keys() | there.keys()):
            if here.get(key) != there.get(key):
                raise ConfigError(
                    f"checkpoint {path} was trained with other networks: {network}.{key} has shape "
                    f"{there.get(key, 'none')} there and {here.get(key, 'none')} here; use the agent settings it was "
                    "trained with"
                )


def save_checkpoint(path: Path, state: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write a checkpoint so that the path never holds half of one; its folder is made.

    A run resumes from the state: tensors, numbers, strings, lists, dicts; NumPy values are converted. The header, in
    JSON values, says what the state belongs to.

    Raises:
        NonFiniteError: A tensor holds a value that is not finite; nothing was written.
        TypeError: The state or the header holds something else.
    """
    import torch

    state = plain(state)
    if not _is_finite(state):
        raise NonFiniteError(
            f"weights, optimizer or normalizers hold values that are not finite: {path} was not written"
        )

    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as partial:
        with partial.open("wb") as file:
            torch.save(state, file)
        with zipfile.ZipFile(partial, "a") as archive:
            archive.writestr(_HEADER, json.dumps({"format": FORMAT, **header}, indent=1))


def load_checkpoint(path: Path, device: str, keys: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a checkpoint.

    Raises:
        ConfigError: The file is no checkpoint, is damaged, holds anything but tensors and plain values or a value that
            is not finite, or lacks a key.
    """
    import torch

    header = check_intact(path)

    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"checkpoint {path} cannot be read safely ({reason}): nothing was loaded") from error

    if not isinstance(state, dict):
        raise ConfigError(f"checkpoint {path} holds a {type(state).__name__}, not a state: nothing was loaded")

    missing = sorted(set(keys) - set(state))
    if missing:
        raise ConfigError(f"checkpoint {path} lacks {', '.join(missing)}: nothing was loaded")
    if not _is_finite(state):
        raise ConfigError(f"checkpoint {path} holds values that are not finite: nothing was loaded")

    return state, header


def acting_weights(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state dict of the network that acts, by the name that the algorithm gives it."""
    names = ("student_state_dict", "actor_state_dict", "model")
    return {name: algorithm[name] for name in names if name in algorithm}


def plain(value: Any, where: str = "state") -> Any:
    """Convert a value to what ``weights_only=True`` can read: tensors without a graph, plain values, and containers.

    ``where`` is the value's name, for the message.

    Raises:
        TypeError: There is something else inside; the message says where.
    """
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value

    if isinstance(value, Mapping):
        return {plain(key, where): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([plain(item, f"{where}[{i}]") for i, item in enumerate(value)])

    raise TypeError(f"{where} is a {type(value).__name__}: checkpoints hold tensors and plain values only")


def _is_finite(state: Any) -> bool:
    import torch

    # Weights may be on a GPU while other tensors are on the CPU, so the results are brought together there.
    finite = [tensor.isfinite().all() for tensor in _tensors(state) if tensor.is_floating_point()]
    return not finite or bool(torch.stack([flag.cpu() for flag in finite]).all())


def _tensors(value: Any) -> "Iterator[torch.Tensor]":
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "is_floating_point"):
        yield value


def _shapes(weights: Any) -> dict[str, tuple[int, ...]]:
    items = weights.items() if isinstance(weights, Mapping) else ()
    return {key: tuple(value.shape) for key, value in items if hasattr(value, "shape")}


def rng_state(device: str) -> dict[str, Any]:
    """Return the state of the random generators of torch (CPU and, on a CUDA device, that device), NumPy and Python."""
    import numpy as np
    import torch

    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    version, internal, python_gauss = random.getstate()

    # What each generator returns is taken apart into tensors and plain values.
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(keys, dtype=np.int64)), int(position), int(has_gauss)],
        "numpy_gauss": float(gauss),
        "python": [version, list(internal)],
        "python_gauss": python_gauss,
    }

    if torch.device(device).type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)

    return state


def set_rng_state(state: Mapping[str, Any], device: str) -> None:
    """Set the random generators to a result of :func:`rng_state`; a GPU's is used only where ``device`` is one."""
    import numpy as np
    import torch

    torch.set_rng_state(state["torch"].cpu())

    name, keys, position, has_gauss = state["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, state["numpy_gauss"]))

    version, internal = state["python"]
    random.setstate((version, tuple(internal), state["python_gauss"]))

    if "cuda" in state and torch.device(device).type == "cuda":
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)
