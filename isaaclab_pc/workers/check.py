# SPDX-License-Identifier: BSD-3-Clause
"""Read runs off their configs, before they start; nothing is simulated."""

import json

from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.run.jobs import CheckJob
from isaaclab_pc.workers.resolve import resolve


def check(job: CheckJob, *_: object) -> int:
    """Write the numbers of iterations of many runs; ConfigError where the settings of one do not fit."""
    iterations = set()
    for settings in job.runs:
        num_envs = settings.num_envs
        if num_envs == "auto":
            num_envs = SearchSettings.of(settings).sizes.start
        iterations.add(resolve(settings, num_envs).max_iterations)

    job.result.write_text(json.dumps(sorted(iterations)), encoding="utf-8")
    return 0
