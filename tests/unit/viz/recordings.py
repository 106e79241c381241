# SPDX-License-Identifier: BSD-3-Clause
"""Reads a recording of rerun's back."""

from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr

from isaaclab_pc.viz.rerun_recording import TIMELINE


def read(path: Path, entity: str, component: str) -> dict[int, Any]:
    """Return what was logged for one component of an entity, by step, as nested lists."""
    found = {}
    for chunk in rr.recording.load_recording(path).chunks():
        batch = chunk.to_record_batch()
        names = batch.schema.names
        if chunk.entity_path == f"/{entity}" and component in names and TIMELINE in names:
            steps, values = batch.column(TIMELINE).to_pylist(), batch.column(component).to_pylist()
            found |= {step: value for step, value in zip(steps, values, strict=True) if value is not None}
    return found


def rgb(colors: Any) -> np.ndarray:
    """Return packed colours as red, green and blue, shape (K, 3)."""
    packed = np.asarray(colors, np.uint32)
    return np.stack([packed >> 24, packed >> 16 & 255, packed >> 8 & 255], axis=-1)
