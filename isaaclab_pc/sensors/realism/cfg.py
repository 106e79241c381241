# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of what sets a real depth camera apart from a rendered one."""

import math
from collections.abc import Sequence

from isaaclab.utils import configclass

from isaaclab_pc.errors import ConfigError

Range = float | tuple[float, float]
"""A number, or bounds (low, high) from which each environment draws at each reset, uniformly."""


def bounds(value: Range) -> tuple[float, float]:
    """Return the smallest and the largest value of a range."""
    if isinstance(value, (int, float)):
        return float(value), float(value)
    low, high = value
    return float(low), float(high)


@configclass
class GaussianNoiseCfg:
    """Normal noise on depth, the same at every distance."""

    std: Range = 0.005
    """Standard deviation [m]."""

    def check(self, name: str) -> None:
        """Refuse values out of range; ``name`` is this field's full name."""
        _check_range(f"{name}.std", self.std, unit="m")


@configclass
class StructuredLightNoiseCfg:
    """Noise of a structured-light camera, measured on the first Kinect.

    Nguyen, Izadi and Lovell 2012, "Modeling Kinect sensor noise for improved 3D reconstruction and tracking"
    (doi:10.1109/3DIMPVT.2012.84). With depth z [m] and the angle theta [rad] between the surface's normal and the
    optical axis, standard deviations are

    - axial: 0.0012 + 0.0019 (z - 0.4)^2 + 0.0001 / sqrt(z) * (theta / (pi/2 - theta))^2 m,
    - lateral: 0.8 + 0.035 theta / (pi/2 - theta) px.

    theta comes from the depth of the neighbouring pixels; above 80 degrees it counts as 80, since the formulas have a
    pole at 90.
    """

    scale: Range = 1.0
    """Multiplies both standard deviations."""

    focal_length: float | None = 585.0
    """Focal length of the real camera [px], for its lateral noise: a pixel of a coarser rendered image covers many of
    its pixels, and the noise is that much smaller in it. None: the rendered image's."""

    def check(self, name: str) -> None:
        """Refuse values out of range; ``name`` is this field's full name."""
        _check_range(f"{name}.scale", self.scale)
        if self.focal_length is not None:
            _check_number(f"{name}.focal_length", self.focal_length, above=True, unit="px")


@configclass
class StereoNoiseCfg:
    """Noise of a stereo camera: normal in disparity d = focal_length * baseline / z.

    To first order the standard deviation of depth is z^2 * disparity_std / (focal_length * baseline) (Keselman,
    Woodfill, Grunnet-Jepsen and Bhowmik 2017, "Intel RealSense stereoscopic depth cameras", arXiv:1705.05548, section
    2.1). The values are those of a RealSense D435 at 848 x 480 pixels.
    """

    baseline: Range = 0.05
    """Distance between the two imagers [m]."""

    disparity_std: Range = 0.08
    """Standard deviation of disparity [px]: 0.032 at best, 0.08 as a usual value (A. Grunnet-Jepsen in librealsense's
    issue 3904)."""

    disparity_step: float = 0.0
    """Smallest step of disparity [px]; 0 does not round. The D400 cameras' is 1/32 (Intel's white paper "Subpixel
    linearity improvement")."""

    lateral_std: Range = 0.0
    """Standard deviation of where a pixel looks, along each image axis [px]: the matching window blurs edges."""

    focal_length: float | None = 424.0
    """Focal length [px] of the real camera; disparity and lateral noise are in its pixels. None: the rendered image's,
    which makes a coarse image very noisy."""

    def check(self, name: str) -> None:
        """Refuse values out of range; ``name`` is this field's full name."""
        _check_range(f"{name}.baseline", self.baseline, unit="m", above=True)
        _check_range(f"{name}.disparity_std", self.disparity_std, unit="px")
        _check_number(f"{name}.disparity_step", self.disparity_step, unit="px")
        _check_range(f"{name}.lateral_std", self.lateral_std, unit="px")
        if self.focal_length is not None:
            _check_number(f"{name}.focal_length", self.focal_length, above=True, unit="px")


@configclass
class DepthRealismCfg:
    """Errors of a real depth camera, in the order in which they act on a pixel; everything is off by default.

    A field of type :data:`Range` takes bounds as well: each environment then draws its own value at each reset.
    """

    noise: GaussianNoiseCfg | StructuredLightNoiseCfg | StereoNoiseCfg | None = None
    """Model of the noise. Lateral noise moves where a pixel looks, axial noise what it reads."""

    flying_pixels: Range = 0.0
    """Probability that a pixel at an edge reads a value between the two surfaces."""

    edge_threshold: float = 0.05
    """Difference in depth [m] from which two neighbouring pixels make an edge."""

    quantization: float = 0.0
    """Step to which depth is rounded [m]; 0 does not round."""

    min_range: Range = 0.0
    """Smallest depth read [m]; below, the pixel is a miss."""

    max_range: Range = math.inf
    """Largest depth read [m]; above, the pixel is a miss."""

    dropout: Range = 0.0
    """Probability that a pixel is a miss, whatever it sees."""

    max_incidence: Range = math.pi / 2
    """Angle [rad] between the surface's normal and the optical axis above which a pixel is a miss."""

    shadow_baseline: Range = 0.0
    """How far the projector, or the second imager, is beside the camera along the image's x axis [m]: what it does not
    see is a miss. Clouds of rays only: images have no such shadow."""

    position_jitter: float = 0.0
    """Error of the calibrated camera position [m]: up to this along each of the camera's axes, drawn at each reset."""

    rotation_jitter: float = 0.0
    """Error of the calibrated camera orientation [rad]: up to this about each of the camera's axes."""

    focal_jitter: float = 0.0
    """Relative error of the calibrated focal length, up to this, the same for fx and fy."""

    principal_point_jitter: float = 0.0
    """Error of the calibrated principal point [px of the rendered image]: up to this along each image axis."""

    latency: int | tuple[int, int] = 0
    """Age of the frame that is returned [frames], or the smallest and largest age from which each environment draws at
    each reset. Until an environment has had that many frames since its reset, it sees the first of them."""

    def check(self, name: str = "realism") -> None:
        """Raise ConfigError for settings that no camera can have; ``name`` is this field's full name."""
        kinds = (GaussianNoiseCfg, StructuredLightNoiseCfg, StereoNoiseCfg)
        if isinstance(self.noise, kinds):
            self.noise.check(f"{name}.noise")
        elif self.noise is not None:
            known = ", ".join(kind.__name__ for kind in kinds)
            raise ConfigError(f"{name}.noise={self.noise!r} must be None, or one of {known}.")
        _check_range(f"{name}.flying_pixels", self.flying_pixels, most=1.0)
        _check_number(f"{name}.edge_threshold", self.edge_threshold, unit="m")
        _check_number(f"{name}.quantization", self.quantization, unit="m")
        _check_range(f"{name}.min_range", self.min_range, unit="m")
        # Infinity means no limit here, but an environment cannot draw from bounds that hold it.
        if self.max_range != math.inf:
            _check_range(f"{name}.max_range", self.max_range, unit="m", above=True)
        _, nearest = bounds(self.min_range)
        farthest, _ = bounds(self.max_range)
        if nearest >= farthest:
            raise ConfigError(
                f"{name}.min_range={self.min_range} m must be below {name}.max_range={self.max_range} m, or every "
                "pixel is a miss."
            )
        _check_range(f"{name}.dropout", self.dropout, most=1.0)
        _check_range(f"{name}.max_incidence", self.max_incidence, most=math.pi / 2, above=True, unit="rad")
        _check_range(f"{name}.shadow_baseline", self.shadow_baseline, unit="m")
        _check_number(f"{name}.position_jitter", self.position_jitter, unit="m")
        _check_number(f"{name}.rotation_jitter", self.rotation_jitter, most=math.pi, unit="rad")
        _check_number(f"{name}.focal_jitter", self.focal_jitter, most=0.9)
        _check_number(f"{name}.principal_point_jitter", self.principal_point_jitter, unit="px")
        ages = self.latency if isinstance(self.latency, (tuple, list)) else (self.latency,)
        if not all(isinstance(age, int) and not isinstance(age, bool) for age in ages):
            raise ConfigError(f"{name}.latency={self.latency!r} must be whole frames: one number, or two: (low, high).")
        _check_range(f"{name}.latency", self.latency, unit="frames")


def structured_light() -> DepthRealismCfg:
    """Return the settings of a camera like the first Kinect in near mode, which reads 0.4 to 3 m in millimetres.

    Noise, range and the projector's distance are published; dropout, flying pixels, jitters and latency are our guesses
    at a usual set-up. The noise was measured up to an incidence of 80 degrees.
    """
    return _usual_camera(StructuredLightNoiseCfg(scale=(0.75, 1.25)), min_range=0.4, shadow_baseline=0.075)


def stereo() -> DepthRealismCfg:
    """Return the settings of a camera like the RealSense D435 at 848 x 480 pixels.

    Noise is published. Range (424 px * 0.05 m / 126 disparities = 0.17 m at least), lateral noise, dropout, flying
    pixels, jitters and latency are our guesses at a usual set-up.
    """
    noise = StereoNoiseCfg(disparity_std=(0.032, 0.08), disparity_step=1.0 / 32.0, lateral_std=0.5)
    return _usual_camera(noise, min_range=0.17, shadow_baseline=0.05)


def short_range_stereo() -> DepthRealismCfg:
    """Return the settings of a camera like the RealSense D405 at 848 x 480 pixels, made for the hand.

    Range (7 cm at least) and distance of the imagers are published; noise is the D435's in disparity, and the rest are
    guesses as for :func:`stereo`.
    """
    noise = StereoNoiseCfg(
        baseline=0.018, focal_length=430.0, disparity_std=(0.032, 0.08), disparity_step=1.0 / 32.0, lateral_std=0.5
    )
    return _usual_camera(noise, min_range=0.07, shadow_baseline=0.018, max_range=1.0)


def as_cfgs(cfg: DepthRealismCfg | Sequence[DepthRealismCfg] | None) -> tuple[DepthRealismCfg, ...]:
    """Return the errors among which each environment draws; none for None."""
    if cfg is None:
        return ()
    return (cfg,) if isinstance(cfg, DepthRealismCfg) else tuple(cfg)


def _usual_camera(
    noise: StructuredLightNoiseCfg | StereoNoiseCfg, min_range: float, shadow_baseline: float, max_range: float = 3.0
) -> DepthRealismCfg:
    return DepthRealismCfg(
        noise=noise,
        flying_pixels=(0.0, 0.2),
        quantization=0.001,
        min_range=min_range,
        max_range=max_range,
        dropout=(0.0, 0.02),
        max_incidence=math.radians(80.0),
        shadow_baseline=shadow_baseline,
        position_jitter=0.005,
        rotation_jitter=0.01,
        focal_jitter=0.01,
        latency=(0, 1),
    )


def _check_number(name: str, value: object, *, most: float = math.inf, above: bool = False, unit: str = "") -> None:
    """Refuse whatever is not a finite number in [0, most], or with ``above`` in (0, most]."""
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0.0 <= value <= most
        and not (above and value == 0.0)
    ):
        return

    if above:
        limit = "be above 0"
    elif most == math.inf:
        limit = "not be negative"
    else:
        limit = f"be in [0, {most:.4g}]"
    suffix = f" [{unit}]" if unit else ""
    raise ConfigError(f"{name}={value!r} must {limit} and finite{suffix}.")


def _check_range(name: str, value: object, *, most: float = math.inf, above: bool = False, unit: str = "") -> None:
    """Refuse a number that :func:`_check_number` refuses, bounds that hold such a number, and inverted bounds."""
    if not isinstance(value, (tuple, list)):
        _check_number(name, value, most=most, above=above, unit=unit)
        return

    if len(value) != 2:
        raise ConfigError(f"{name}={value!r} must be one number, or two: (low, high).")
    for bound in value:
        _check_number(name, bound, most=most, above=above, unit=unit)
    if value[0] > value[1]:
        raise ConfigError(f"{name}={value!r} must be (low, high) with low at most high: swap them.")
