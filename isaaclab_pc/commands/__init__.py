# SPDX-License-Identifier: BSD-3-Clause
"""The scripts, one file each: read the settings, start what is needed. Loads neither torch nor a simulator."""

COMMANDS = {
    "train": "Train a policy",
    "play": "Evaluate a checkpoint",
    "view": "Look at a few environments as the policy sees them",
    "scale": "Find how many environments fit",
    "tune": "Search for better settings",
    "report": "Write a run as one page, or compare runs",
    "export": "Export a policy for programs without a simulator",
    "replay": "Replay the last steps of a failed environment",
    "demo": "Record demonstrations of an expert",
    "objects": "Make or import sets of objects",
    "robot": "Import an arm from URDF, MJCF or USD",
    "new_task": "Write the skeleton of a new task",
    "list_tasks": "List the tasks",
}
"""Purpose of each script, by name; the module of that name has its ``main``."""
