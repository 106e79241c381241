# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the reach task."""

from isaaclab_pc.envs.expert import Case

CASES = (Case(name="go to the target", target=lambda env: (env.target_pos, env.tool_quat)),)
