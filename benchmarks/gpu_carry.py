# SPDX-License-Identifier: BSD-3-Clause
"""The packages that a machine with a GPU, torch and no internet lacks: packed here in small parts, installed there.

    python benchmarks/gpu_carry.py pack carry
    python benchmarks/gpu_carry.py install carry packages

``pack`` writes the wheels that ``constraints.txt`` pins as files of at most 60 MB, with a list of their checksums,
and the commits that results may come from. The parts may be carried one at a time: ``install`` joins those that are
in the folder, and says which are missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PART_BYTES = 60_000_000
LIST_NAME = "parts.json"
PACKAGES = (
    *("warp-lang", "newton", "newton-usd-schemas", "mujoco", "mujoco-warp", "usd-exchange", "omniverseclient"),
    *("isaaclab", "rsl-rl-lib", "tensordict", "pyvers", "importlib-metadata", "zipp", "cloudpickle"),
    *("gymnasium", "farama-notifications", "hydra-core", "omegaconf", "antlr4-python3-runtime", "pyyaml"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions", "prettytable"),
    *("wcwidth", "trimesh", "lazy-loader", "numpy", "psutil", "nvidia-ml-py", "filelock"),
    *("rich", "markdown-it-py", "mdurl", "pygments", "h5py", "scipy", "matplotlib", "contourpy", "cycler"),
    *("fonttools", "kiwisolver", "pillow", "pyparsing", "python-dateutil", "six", "packaging", "jinja2"),
    *("markupsafe", "tensorboard", "tensorboard-data-server", "grpcio", "protobuf", "absl-py", "markdown"),
    *("werkzeug", "einops", "gitpython", "gitdb", "smmap", "tqdm", "etils", "glfw", "pyopengl", "onnx"),
    *("ml-dtypes", "onnxscript", "onnx-ir", "pytest", "pytest-timeout", "pluggy", "iniconfig"),
    *("hypothesis", "sortedcontainers"),
)
"""Packages that a training on Newton with RSL-RL and pytest load, apart from torch and its own."""
LEFT_OUT = ("warp-clang.so",)
"""Large files that nothing needs there: with this one, Warp compiles kernels for the CPU."""


def pins(names: Iterable[str], constraints: str) -> list[str]:
    """Return the pinned requirement of each package.

    Args:
        names: Names as in the constraints.
        constraints: Their text.

    Raises:
        SystemExit: One is not pinned.
    """
    pinned = {line.partition("==")[0]: line.strip() for line in constraints.splitlines() if "==" in line}
    missing = [name for name in names if name not in pinned]
    if missing:
        raise SystemExit(f"constraints.txt does not pin {', '.join(missing)}")
    return [pinned[name] for name in names]


def slim(wheel: Path) -> None:
    """Remove what is left out from a wheel, and its lines from the wheel's list of files."""
    with zipfile.ZipFile(wheel) as before:
        if not any(info.filename.endswith(LEFT_OUT) for info in before.infolist()):
            return
        smaller = wheel.with_suffix(".smaller")
        with zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as after:
            for info in before.infolist():
                if info.filename.endswith(LEFT_OUT):
                    continue
                content = before.read(info)
                if info.filename.endswith(".dist-info/RECORD"):
                    lines = content.decode().splitlines(keepends=True)
                    kept = [line for line in lines if not line.partition(",")[0].endswith(LEFT_OUT)]
                    content = "".join(kept).encode()
                after.writestr(info, content, zipfile.ZIP_DEFLATED)
    smaller.replace(wheel)


def split(file: Path, folder: Path) -> None:
    """Write a file as parts into a folder, with a list of them."""
    parts = {}
    with file.open("rb") as whole:
        while content := whole.read(PART_BYTES):
            name = f"part-{len(parts):02d}"
            (folder / name).write_bytes(content)
            parts[name] = hashlib.sha256(content).hexdigest()
    (folder / LIST_NAME).write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")


def join(folder: Path, file: Path) -> None:
    """Put the parts in a folder together again.

    Raises:
        SystemExit: Some are missing or damaged.
    """
    parts: dict[str, str] = json.loads((folder / LIST_NAME).read_text(encoding="utf-8"))
    bad = []
    with file.open("wb") as whole:
        for name, checksum in parts.items():
            content = (folder / name).read_bytes() if (folder / name).exists() else b""
            if hashlib.sha256(content).hexdigest() != checksum:
                bad.append(name)
            whole.write(content)
    if bad:
        raise SystemExit(f"{folder}: missing or damaged: {', '.join(bad)}")


def pack(folder: Path) -> None:
    """Write the wheels as parts, and the commits, for a machine without internet."""
    from benchmarks import gpu_queue

    folder.mkdir(parents=True, exist_ok=True)
    requirements = pins(PACKAGES, (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch) / "wheels"
        # Of those that come as sources alone, it makes wheels.
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels)]
        subprocess.run([*pip, *requirements], check=True)
        for wheel in wheels.glob("*.whl"):
            slim(wheel)

        archive = Path(scratch) / "wheels.tar"
        with tarfile.open(archive, "w") as file:
            file.add(wheels, "wheels")
        split(archive, folder)
    commits = gpu_queue.commits_since(gpu_queue.QUEUE.read_text(encoding="utf-8"))
    gpu_queue.COMMITS.write_text("\n".join(commits) + "\n", encoding="utf-8")
    sizes = [path.stat().st_size for path in folder.glob("part-*")]
    print(f"{len(sizes)} parts in {folder}, {sum(sizes) / 1e6:.0f} MB, and {gpu_queue.COMMITS.name}")


def install(folder: Path, target: Path) -> None:
    """Install the wheels of a folder of parts into another one, which is then to be on PYTHONPATH."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "wheels.tar"
        join(folder, archive)
        with tarfile.open(archive) as file:
            file.extractall(scratch, filter="data")
        wheels = sorted(map(str, Path(scratch, "wheels").glob("*.whl")))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
        subprocess.run([*pip, *wheels], check=True)
    shutil.rmtree(target / "bin", ignore_errors=True)
    print(f"export PYTHONPATH={target.resolve()}:{ROOT}")


def main() -> None:
    """Pack or install."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pack", "install"))
    parser.add_argument("parts", type=Path, help="folder of the parts")
    parser.add_argument("target", type=Path, nargs="?", help="install: where the packages go")
    args = parser.parse_args()
    if args.what == "pack":
        pack(args.parts)
    elif args.target is None:
        parser.error("install needs a folder for the packages")
    else:
        install(args.parts, args.target)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
