# SPDX-License-Identifier: BSD-3-Clause
"""Values that the settings take, to be drawn by hypothesis."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import TypeAdapter

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.run import SETTINGS, VISUALIZER_NAMES

TASK = "IsaacPC-Reach-Franka-Direct"

SEEDS = ("seed", "eval.seed", "eval.best_seed")
"""Settings that must differ from each other."""


def interval() -> SearchStrategy[list[float]]:
    edges = st.tuples(st.floats(-100, 100), st.floats(-100, 100))
    return edges.filter(lambda pair: pair[0] != pair[1]).map(sorted)


VALID_BY_KEY: dict[str, SearchStrategy[Any]] = {
    "task": st.sampled_from(["reach", TASK]),
    "resume": st.none() | st.sampled_from(["latest", "best", "logs/rsl_rl/reach/2026", "a b/model_3.pt"]),
    "init": st.none() | st.sampled_from(["pretrained", "logs/rsl_rl/reach/2026", "a b/model_3.pt"]),
    "demos": st.none() | st.sampled_from(["demos.hdf5", "logs/demo/a b/demos.hdf5"]),
    "teacher": st.none() | st.sampled_from(["expert", "logs/rsl_rl/reach_state/2026", "a b/model_3.pt"]),
    "robot": st.sampled_from(["franka", "ur5e", "my_panda", "robots/my arm"]),
    "device": st.sampled_from(["auto", "cpu", "cuda", "cuda:0", "cuda:12", "cuda:0,cuda:1"]),
    "rendezvous": st.none() | st.sampled_from(["alpha", "alpha.example.org:29400", "10.0.0.1:1"]),
    "host": st.sampled_from(["127.0.0.1", "0.0.0.0", "192.168.1.7"]),
    "visualizer": st.none()
    | st.sampled_from(VISUALIZER_NAMES)
    | st.lists(st.sampled_from(VISUALIZER_NAMES), min_size=1, unique=True),
    "points.crop": st.none() | st.lists(interval(), min_size=3, max_size=3),
    "points.features": st.none() | st.lists(st.sampled_from(["rgb", "normals", "segmentation", "camera"]), unique=True),
    "scaling.budget": st.none() | st.floats(1e-4, 1) | st.sampled_from(["0.8", "80%", "20GiB", "1.5 TB", "512M"]),
}
"""For types that check with a function."""


def valid(key: str) -> SearchStrategy[Any]:
    """Values that the type of a setting takes, its bounds among them."""
    if key in VALID_BY_KEY:
        return VALID_BY_KEY[key]
    return _of_schema(TypeAdapter(SETTINGS[key].type).json_schema())


def _of_schema(schema: dict[str, Any]) -> SearchStrategy[Any]:
    """Values of a type that is described in JSON's words."""
    if "anyOf" in schema:
        return st.one_of(*map(_of_schema, schema["anyOf"]))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "null":
        return st.none()
    if schema["type"] == "boolean":
        return st.booleans()

    most = schema["maximum"]
    if schema["type"] == "integer":
        least = schema["minimum"]
        return st.sampled_from([least, most]) | st.integers(least, most)
    assert schema["type"] == "number", f"the test does not know how to draw from {schema}"
    above = schema.get("exclusiveMinimum")
    least = schema.get("minimum", above)
    edges = [most] if above is not None else [least, most]
    return st.sampled_from(edges) | st.floats(least, most, exclude_min=above is not None)


def refusal_of(check: Callable[[], object]) -> str | None:
    """Return what a ConfigError says; None where there was none."""
    try:
        check()
    except ConfigError as error:
        return str(error)
    return None
