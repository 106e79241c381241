# SPDX-License-Identifier: BSD-3-Clause
"""A small arm of boxes with a parallel gripper, as URDF."""

from pathlib import Path

_LINK = """<link name="{name}">
  <inertial><origin xyz="{x} {y} {z}"/><mass value="0.5"/>
    <inertia ixx="0.002" iyy="0.002" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="{x} {y} {z}"/><geometry><box size="{size}"/></geometry></collision>
</link>"""

_JOINT = """<joint name="{name}" type="{kind}">
  <parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}
</joint>"""

_LIMIT = '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'

_CHAIN = (
    ("0 0 0.15", "0 0 1", 40.0),
    ("0 0 0.1", "0 1 0", 40.0),
    ("0 0 0.35", "0 1 0", 40.0),
    ("0 0 0.1", "0 0 1", 10.0),
    ("0 0 0.25", "0 1 0", 10.0),
    ("0 0 0.08", "0 0 1", 10.0),
)
"""Place, axis and effort of each joint of the arm."""

FINGERS = (
    _JOINT.format(
        name="left", kind="prismatic", parent="hand", child="left_tip", xyz="0.08 0 0", rpy="0 0 0", axis="0 0 1",
        limit=_LIMIT.format(0.01, 0.05, 30, 0.1),
    ),
    # It opens at its lower limit.
    _JOINT.format(
        name="right", kind="prismatic", parent="hand", child="right_tip", xyz="0.08 0 0", rpy="0 0 0", axis="0 0 1",
        limit=_LIMIT.format(-0.05, -0.01, 30, 0.1),
    ),
)  # fmt: skip
"""The joints of the fingers, which slide along the hand's z axis; the hand's x axis points out of the gripper."""


def small_arm(fingers: tuple[str, ...] = FINGERS, extra: str = "") -> str:
    """Return the arm as URDF, its hand with these joints of fingers, and more elements of any kind."""
    names = ["base", *(f"link{index}" for index in range(1, 7)), "hand", "left_tip", "right_tip"]
    boxes = {"base": (0, 0, 0.05, "0.1 0.1 0.1"), "hand": (0.03, 0, 0, "0.05 0.05 0.1")}
    boxes |= {tip: (0.03, 0, 0, "0.06 0.02 0.01") for tip in ("left_tip", "right_tip")}
    used = names if fingers else names[:-2]
    parts = []
    for name in used:
        x, y, z, size = boxes.get(name, (0, 0, 0.03, "0.05 0.05 0.05"))
        parts.append(_LINK.format(name=name, x=x, y=y, z=z, size=size))
    for index, (xyz, axis, effort) in enumerate(_CHAIN):
        limit = _LIMIT.format(-2.9, 2.9, effort, 3.0)
        parts.append(
            _JOINT.format(
                name=f"joint{index + 1}", kind="revolute", parent=names[index], child=names[index + 1], xyz=xyz,
                rpy="0 0 0", axis=axis, limit=limit,
            )
        )  # fmt: skip
    fixed = {"kind": "fixed", "axis": "1 0 0", "limit": ""}
    # The hand's x axis points along the z axis of the flange.
    parts.append(
        _JOINT.format(
            name="mount", parent="link6", child="hand", xyz="0 0 0.05", rpy="0 -1.5707963267948966 0", **fixed
        )
    )
    return f'<robot name="small">{"".join([*parts, *fingers])}{extra}</robot>'


def write_small_arm(folder: Path, **parts: str | tuple[str, ...]) -> Path:
    """Write :func:`small_arm` to a file."""
    file = folder / "small.urdf"
    file.write_text(small_arm(**parts), encoding="utf-8")  # pyright: ignore[reportArgumentType]
    return file
