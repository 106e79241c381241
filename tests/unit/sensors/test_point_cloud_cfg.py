# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the sensor that are refused, each with a message that says what would do."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthRealismCfg, PointCloudCfg, scene_cameras, stereo


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_points": 65}, "8 x 8 = 64"),
        ({"frame": "wrist"}, "points.frame='wrist'"),
        ({"crop_frame": "table"}, "points.crop_frame='table'"),
        ({"cameras": ()}, "at least one camera"),
        ({"cameras": ("a", "a")}, "each once"),
        ({"features": ("color",)}, "rgb, normals, segmentation, one_hot, camera"),
        ({"features": ("rgb", "rgb")}, "at most once"),
        ({"features": ("one_hot",)}, "points.classes"),
        ({"classes": ("cube",)}, "one_hot"),
        ({"source": "pixels"}, "points.source='pixels'"),
        ({"num_points": 8, "realism": DepthRealismCfg(dropout=2.0)}, "points.realism.dropout"),
        ({"realism_of": {"camera": DepthRealismCfg(dropout=2.0)}}, r"points.realism_of\['camera'\].dropout"),
    ],
)
def test_an_impossible_cloud_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PointCloudCfg(**changes).check([(8, 8)])


def test_a_point_of_an_unknown_class_is_of_none() -> None:
    labels = scene_cameras.SemanticLabels(1, (), ("cube", "table"), "cpu")
    labels.class_index = torch.tensor([[0, -1, 1]])
    ids = torch.tensor([[-1, 0, 1, 2, 7]], dtype=torch.int32)
    one_hot = labels.one_hot(ids, torch.zeros(1, 5, dtype=torch.long))
    assert one_hot.tolist() == [[[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]]]


def test_cameras_are_told_what_the_cloud_needs() -> None:
    assert PointCloudCfg(remove=("robot",), source="rays").data_types() == ()
    assert PointCloudCfg().data_types() == ("depth",)
    assert PointCloudCfg(remove=("robot",)).data_types() == ("depth", "semantic_segmentation")
    assert PointCloudCfg(features=("rgb", "camera")).data_types() == ("depth", "rgb")
    assert PointCloudCfg(features=("one_hot",), classes=("cube",)).data_types() == ("depth", "semantic_segmentation")


def find_camera(cfg: PointCloudCfg, name: str, **cameras: list[str]) -> Any:
    """Look a camera up as the sensor does when the simulation starts, in a scene of stand-ins."""
    sensors: dict[str, Any] = {
        key: SimpleNamespace(image_shape=(8, 8), cfg=SimpleNamespace(data_types=types, update_latest_camera_pose=False))
        for key, types in cameras.items()
    }
    sensors["contact"] = SimpleNamespace()
    scene: Any = SimpleNamespace(sensors=sensors)
    return scene_cameras.find_camera(scene, name, cfg.data_types())


NEWTON, RTX = (
    SimpleNamespace(renderer_cfg=SimpleNamespace(renderer_type=name)) for name in ("newton_warp", "isaac_rtx")
)
PROCESSED = SimpleNamespace(renderer_cfg=NEWTON.renderer_cfg, isp_cfg=object())


def test_rays_are_the_choice_where_they_can_be() -> None:
    assert PointCloudCfg(sampler="fps", realism=stereo()).casts_rays([NEWTON, NEWTON])
    assert not PointCloudCfg(source="image").casts_rays([NEWTON])
    assert not PointCloudCfg().casts_rays([NEWTON, RTX])
    assert PointCloudCfg(features=("rgb",)).casts_rays([NEWTON])
    assert not PointCloudCfg(features=("rgb",)).casts_rays([PROCESSED])
    assert PointCloudCfg().casts_rays([PROCESSED])
    with pytest.raises(ConfigError, match="isaac_rtx"):
        PointCloudCfg(source="rays").casts_rays([RTX])
    with pytest.raises(ConfigError, match="isp_cfg"):
        PointCloudCfg(source="rays", features=("rgb",)).casts_rays([PROCESSED])


def test_an_unknown_camera_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'wrist'.*\['front'\]"):
        find_camera(PointCloudCfg(), "wrist", front=["depth"])


@pytest.mark.parametrize(
    ("cfg", "types", "missing"),
    [
        (PointCloudCfg(), ["rgb"], "depth"),
        (PointCloudCfg(remove=("robot",)), ["depth"], "semantic_segmentation"),
        (PointCloudCfg(features=("rgb",)), ["depth"], "rgb"),
    ],
)
def test_a_camera_that_does_not_render_what_is_needed_is_refused(
    cfg: PointCloudCfg, types: list[str], missing: str
) -> None:
    with pytest.raises(ConfigError, match=f"'front' renders .* needs '{missing}': add it to the camera's data_types"):
        find_camera(cfg, "front", front=types)


def test_a_camera_is_made_to_renew_its_pose() -> None:
    camera = find_camera(PointCloudCfg(features=("rgb",)), "front", front=["distance_to_image_plane", "rgba"])
    assert camera.cfg.update_latest_camera_pose
