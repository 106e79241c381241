# SPDX-License-Identifier: BSD-3-Clause
"""Result of an evaluation, as it stands in ``run.json`` and ``result.json``. Loads no torch."""

from dataclasses import dataclass

from isaaclab_pc.utils.json_record import Count, JsonRecord, Size


@dataclass(frozen=True)
class Success(JsonRecord):
    """A share of episodes, and how sure it is."""

    rate: float
    """The share, 0 to 1."""

    lower: float
    """Lower end of the 95 % interval of the true share (Wilson score)."""

    upper: float
    """Its upper end."""

    def __str__(self) -> str:
        """Rate and interval in percent."""
        return f"{100 * self.rate:.1f} % [{100 * self.lower:.1f}, {100 * self.upper:.1f}]"


@dataclass(frozen=True)
class Third(JsonRecord):
    """The episodes in which a randomized factor was in one third of the range of its values."""

    lower: float
    """Lower end of this third."""

    upper: float
    """Its upper end."""

    episodes: Count
    """Episodes in it."""

    success: Success | None
    """Those of them that ended in success; None where there is no episode."""


@dataclass(frozen=True)
class Breakdown(JsonRecord):
    """How success depends on one factor that is randomized at the start of an episode."""

    factor: str
    """Its name: ``<object>_x``, ``_y``, ``_z`` [m] and ``_yaw`` [rad] as the task draws them; ``<object>_size``,
    ``_mass`` and ``_friction``, which multiply the task's own values; ``camera_offset`` [m]."""

    thirds: tuple[Third, Third, Third]
    """The lowest, the middle and the highest third of the values that were drawn."""

    @property
    def spread(self) -> float:
        """Difference between the highest and the lowest success rate of the thirds."""
        rates = [third.success.rate for third in self.thirds if third.success is not None]
        return max(rates) - min(rates)


@dataclass(frozen=True)
class Evaluation(JsonRecord):
    """The result of an evaluation."""

    episodes: Size
    """Episodes counted, the same number in every environment."""

    seed: Count
    """Seed of the resets."""

    success: Success | None
    """Episodes at whose end the task was fulfilled; None where the task does not say what success is."""

    success_once: Success | None
    """Episodes in which it was fulfilled at any step."""

    mean_return: float | None
    """Mean undiscounted sum of rewards of an episode; None where it is not finite."""

    mean_time_to_success_s: float | None
    """Mean simulated time until an episode that ended in success first fulfilled the task [s]; None where none did."""

    breakdown: tuple[Breakdown, ...] = ()
    """Success by each factor that was randomized."""

    @property
    def success_rate(self) -> float | None:
        """Share of episodes that ended in success; None where the task does not say what success is."""
        return None if self.success is None else self.success.rate

    def __str__(self) -> str:
        """One line for the terminal."""
        success = "success not defined by this task"
        if self.success is not None and self.success_once is not None:
            success = f"success {self.success} at the end, {self.success_once} at any time"

        mean_return = "-" if self.mean_return is None else f"{self.mean_return:.2f}"
        time = "-" if self.mean_time_to_success_s is None else f"{self.mean_time_to_success_s:.2f} s"
        return f"{success}, over {self.episodes} episodes; mean return {mean_return}, mean time to success {time}"

    def breakdown_table(self) -> str:
        """Return lines for the terminal: the factors, those that success depends on most first; empty without any."""
        if not self.breakdown:
            return ""

        width = max(len(part.factor) for part in self.breakdown)
        lines = ["success in the lowest, middle and highest third of what was randomized:"]
        for part in sorted(self.breakdown, key=lambda part: part.spread, reverse=True):
            values = f"{part.thirds[0].lower:7.3f} to {part.thirds[-1].upper:7.3f}"
            lines.append(f"  {part.factor:{width}}  {values}  {'  '.join(map(_cell, part.thirds))}".rstrip())
        return "\n".join(lines)


def _cell(third: Third) -> str:
    """Return one third as text of a fixed width."""
    rate = "-" if third.success is None else f"{100 * third.success.rate:.0f} %"
    return f"{rate:>5} of {third.episodes:<4}"
