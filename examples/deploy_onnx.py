# SPDX-License-Identifier: BSD-3-Clause
"""An exported policy on saved depth images: cloud, then action, without a simulator.

    python scripts/export.py run=pretrained task=lift
    python examples/deploy_onnx.py logs/pretrained/lift/export

Needs onnxruntime and, as examples/clouds_of_depth_images.py, torch, Warp, NumPy and lazy_loader: no Isaac Lab.

The recording is the sample.npz that the export wrote, or one of your own with the same arrays, one row for each frame,
the frames of an episode from its start; with ``actions`` in it, those of the policy must be equal to them. What stands
in ``world`` may stand in any frame that does not move, such as the robot's base. Images of clouds may have any size,
with the intrinsics of that size:

    policy                  proprioception of the frame, as policy.json says                            (F, P)
    depth_<camera>          distance to the image plane [m]; 0, NaN or infinity where there is none     (F, H, W)
    removed_<camera>        not 0 where the robot is, or whatever else gives no point; optional         (F, H, W)
    intrinsics_<camera>     pinhole matrix [px], counted from the corner of the first pixel             (F, 3, 3)
    centers_<camera>        where a pinhole would see what each pixel sees [px], for all frames that of
                            the first one; optional: without it, images are taken as undistorted        (F, H, W, 2)
    camera_pos_<camera>     position in world [m]                                                       (F, 3)
    camera_quat_<camera>    orientation in world, (x, y, z, w), x right, y down, z forward              (F, 4)
    crop_pos, crop_quat     the frame that the crop is given in, in world [m], (x, y, z, w)             (F, 3), (F, 4)
    frame_pos, frame_quat   the frame of the points, in world [m], (x, y, z, w)                         (F, 3), (F, 4)
    key                     int32; equal keys choose equal pixels; optional, the frame's number         (F,)

A policy of depth images takes ``policy`` and ``depth_camera`` alone, in the size that it was trained with. Of what
points may carry beside their position, this program knows the normals.

Before the policy acts, examples/read_recording.py and check_recording.py check all frames. Exit codes: 0; 1 where the
actions are not those recorded; 2 where the policy cannot act, as a file or a frame is not what it has to be.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from check_recording import check_frames, find_doubts
from exported_policy import ExportedPolicy, side_by_side
from read_recording import load_recording, refuse_frames

from isaaclab_pc.errors import ConfigError

TOLERANCE = 1e-3
"""Largest difference from recorded actions. float16 rounds points, and another machine may round one the other way."""


def main() -> None:
    """Run the policy over a recording and compare its actions with the recorded ones."""
    given = _arguments()
    try:
        _run(given.folder, given.recording or given.folder / "sample.npz")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def _run(folder: Path, path: Path) -> None:
    policy = ExportedPolicy(folder)
    recording = load_recording(path, policy.description, policy.shapes)
    count_points = (lambda given: policy.clouds(given)[1]) if policy.reads_clouds else None
    check_frames(policy.description, recording, count_points)

    inputs = {name: _with_history(frames, policy.length) for name, frames in policy.frames(recording).items()}
    actions = policy.act(inputs)
    refuse_frames(~np.isfinite(actions).all(axis=1), "the policy's action is NaN or infinite")
    for doubt in find_doubts(policy.description, recording):
        print(f"warning: {doubt}", file=sys.stderr)

    # What is sent to the robot; the scale and the meaning of each number stand in policy.json.
    for index, command in enumerate(policy.clip(actions)):
        print(f"frame {index}: {np.array2string(command, precision=4, suppress_small=True)}")

    if "actions" in recording:
        difference = float(np.abs(actions - recording["actions"]).max())
        print(f"as recorded to {difference:.1e}, over {len(actions)} frames")
        if not difference <= TOLERANCE:
            raise SystemExit(f"the actions differ from the recorded ones by more than {TOLERANCE:g}.")


def _with_history(frames: np.ndarray, length: int) -> np.ndarray:
    """Return an input of frames, each (F, ...), with those before it; what was before an episode is its first frame."""
    if length == 1:
        return frames
    index = np.arange(len(frames))[:, None] + np.arange(1 - length, 1)
    return side_by_side(frames[index.clip(min=0)])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what scripts/export.py wrote")
    parser.add_argument("recording", type=Path, nargs="?", help="(default: sample.npz in that folder)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
