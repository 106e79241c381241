# SPDX-License-Identifier: BSD-3-Clause
"""Anybody's arm, from URDF, MJCF or USD to a robot of the tasks, by Newton and USD; and what all arms' fingers have."""

FINGER_ARMATURE = {"physxJoint:armature": 2.0, "newton:armature": 0.1}
"""Inertia of the gripper's motor as each finger feels it on each solver [kg].

A finger of 15 g at the end of an arm of 18 kg is too light for the 8 iterations of PhysX. When the hand was pressed on
a table and drawn across it, a finger left its joint's limits by up to 0.2 m with 0.1 kg, and by 0.02 m with 2 kg.
Newton's solver holds the limits with 0.1 kg, and opens fewer drawers with 2 kg (58 of 64 instead of 62).
"""

FINGER_FRICTION = 1.0
"""Static and dynamic friction of the finger pads [1]."""
