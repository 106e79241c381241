# SPDX-License-Identifier: BSD-3-Clause
"""Settings of jobs of a scheduler, beside those of a run."""

from typing import Annotated

from pydantic import StringConstraints

from isaaclab_pc.settings.base import Expects, ScriptSettings

ImagePath = Annotated[
    str, StringConstraints(min_length=1, max_length=4096, pattern=r"\S"), Expects("the path of an Apptainer image")
]


class SubmitSettings(ScriptSettings):
    """Jobs of a SLURM cluster, with hydra/launcher=slurm (docs/clusters.md)."""

    dry_run: bool = False
    """Print the sbatch file, and submit nothing."""

    image: ImagePath | None = None
    """Run the jobs inside of this Apptainer image, which has isaaclab_pc[cluster] installed."""
