# SPDX-License-Identifier: BSD-3-Clause
"""Install isaaclab_pc; the version and the description come from extension.toml."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
PACKAGE = tomllib.loads((ROOT / "extension.toml").read_text(encoding="utf-8"))["package"]

INSTALL_REQUIRES = [
    # No upper bound: in Isaac Lab's repository, release 3.0 of it is version 28. run/platform.py looks closer.
    # Of a release after 3.0, run/platform.py refuses to start.
    "isaaclab>=3.0,<29",
    "annotated-types>=0.7",
    "filelock>=4",
    "gymnasium>=1.2",
    "h5py>=3",
    "hydra-core>=1.3,<1.4",
    "jinja2>=3.1",
    "lazy-loader>=0.4",
    "manifold3d>=3.1,<4",
    "matplotlib>=3.10",
    "numpy>=2",
    "nvidia-ml-py>=12",
    "packaging",
    "psutil>=5.9",
    "pydantic>=2.10,<3",
    "pyyaml>=6",
    "rich>=13",
]

EXTRAS_REQUIRE = {
    # Reinforcement-learning libraries beyond RSL-RL, which Isaac Lab itself brings.
    "rl_games": ["rl-games>=1.6.5,<1.7"],
    "skrl": ["skrl>=2.1,<2.2"],
    "sb3": ["stable-baselines3>=2.9,<2.10"],
    # PhysX without Kit. These wheels come under NVIDIA's Omniverse terms.
    "ovphysx": ["ovphysx>=0.6.4,<0.7"],
    "cluster": ["hydra-submitit-launcher>=1.2,<1.3", "ray[train,tune]>=2.50,<3"],
    # Running what scripts/export.py writes; what writes it comes with Isaac Lab.
    "export": ["onnxruntime>=1.20"],
    # For benchmarks: a peer of bench_points.py (the others come with Isaac Lab), and the matching of stereo_judge.py.
    "bench": ["fpsample>=1.0,<2", "opencv-python-headless>=4.10,<6"],
    # logger=wandb. MLflow 3 and Trackio exclude versions of other packages that Isaac Lab 3.0 is tested with.
    "wandb": ["wandb>=0.20"],
    # viser in Isaac Lab's version; PyAV, with FFmpeg's libraries in its wheel, writes films.
    "viz": ["viser>=1.0.16", "av>=15"],
    # The documentation's site.
    "docs": ["furo>=2025.9", "myst-parser>=4", "sphinx>=8.2,<10", "sphinx-copybutton>=0.5"],
    "test": [
        "hypothesis>=6.100",
        "pyright[nodejs]>=1.1.390",
        "pytest>=8",
        "pytest-timeout>=2.3",
        "pytest-xdist>=3.6",
        "ruff>=0.8",
        "setuptools>=77",
        "uv>=0.5",
    ],
}

setup(
    name="isaaclab_pc",
    version=PACKAGE["version"],
    description=PACKAGE["description"],
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=PACKAGE["author"],
    maintainer=PACKAGE["maintainer"],
    license=PACKAGE["license"],
    keywords=PACKAGE["keywords"],
    python_requires=">=3.12,<3.13",
    # isaaclab_pc/tasks and isaaclab_pc/agents are links to the top-level folders; find_packages follows them.
    packages=find_packages(include=["isaaclab_pc", "isaaclab_pc.*"]),
    package_data={
        "isaaclab_pc": [
            *("extension.toml", "py.typed", "**/*.yaml", "**/*.usda", "**/*.pyi", "tasks/*/policy.pt"),
            "report/templates/*",
        ]
    },
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
    entry_points={
        "console_scripts": ["isaaclab-pc = isaaclab_pc.__main__:main"],
        # `isaaclab train --task IsaacPC-...` imports this module to find our tasks.
        "isaaclab.tasks": ["isaaclab_pc = isaaclab_pc.tasks"],
    },
    zip_safe=False,
)
