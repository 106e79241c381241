# SPDX-License-Identifier: BSD-3-Clause
# /// script
# requires-python = ">=3.12"
# dependencies = ["robomimic==0.3.0", "torch>=2.7", "torchvision"]
# [tool.uv]
# # It compiles a search for displays, which only robomimic's own rendering needs.
# override-dependencies = ["egl-probe; sys_platform == 'never'"]
# ///
"""Read a file by robomimic's own loader; print what a test asks as JSON."""

import json
import sys

from robomimic.utils.dataset import SequenceDataset  # pyright: ignore[reportMissingImports]
from robomimic.utils.obs_utils import initialize_obs_utils_with_obs_specs  # pyright: ignore[reportMissingImports]

initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["points", "policy"]}})
dataset = SequenceDataset(
    sys.argv[1],
    obs_keys=["points", "policy"],
    dataset_keys=["actions", "rewards", "dones"],
    seq_length=2,
    hdf5_cache_mode="all",
    load_next_obs=False,
)
steps = [dataset[index] for index in range(len(dataset))]
print(
    json.dumps(
        {
            "episodes": dataset.n_demos,
            "points": steps[0]["obs"]["points"].shape,
            "actions": [step["actions"][:, 0].tolist() for step in steps],
            "states": [step["obs"]["policy"][:, 0].tolist() for step in steps],
        }
    )
)
