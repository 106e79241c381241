# SPDX-License-Identifier: BSD-3-Clause
"""Observation terms for manager-based environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import SceneEntityCfg

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedEnv


def cloud_points(env: ManagerBasedEnv, sensor_cfg: SceneEntityCfg = SceneEntityCfg("points")) -> torch.Tensor:  # noqa: B008
    """Return a :class:`PointCloud` sensor's points [m] and features, shape (N, K + A, F), of the sensor's dtype.

    Give it an observation group of its own, with ``concatenate_terms=False`` if other terms share the group: a cloud
    cannot be joined to flat vectors::

        points = ObsTerm(func=cloud_points, params={"sensor_cfg": SceneEntityCfg("points")})
    """
    return env.scene.sensors[sensor_cfg.name].data.points.torch.clone()
