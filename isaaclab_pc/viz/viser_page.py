# SPDX-License-Identifier: BSD-3-Clause
"""A page that shows running environments in a browser, with a panel to control them; served by viser."""

from __future__ import annotations

from collections.abc import Sequence

import viser

from isaaclab_pc.viz.arm_drive import ArmDrive
from isaaclab_pc.viz.controls import Controls
from isaaclab_pc.viz.scene_frame import SceneFrame, SceneLayout
from isaaclab_pc.viz.viser_panel import Panel, SettingField
from isaaclab_pc.viz.viser_scene import ViserScene
from isaaclab_pc.web_address import free_port, host_name

__all__ = ["ViserPage"]


class ViserPage:
    """The page.

    Example:
        .. code-block:: python

            controls = Controls()
            page = ViserPage("127.0.0.1", 8080, controls)
            page.begin(reader.layout, "### lift", fields=[])
            page.show(frame)
            page.close()
    """

    scene: ViserScene
    """The drawn scene, since :meth:`begin`."""

    panel: Panel
    """The panel; since :meth:`begin`."""

    def __init__(self, host: str, port: int, controls: Controls) -> None:
        """Begin to serve.

        Args:
            host: Address to listen on.
            port: Port to listen on; the next free one where it is taken, and that is said.
            controls: Told what the person asks for.

        Raises:
            ConfigError: This user may listen on no such port.
        """
        self._server = viser.ViserServer(host=host, port=free_port(host, port), label="isaaclab_pc", verbose=False)
        self._server.gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
        self._controls = controls
        self._frame: SceneFrame | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.get_port()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{host_name(self._server.get_host())}:{self.port}"

    def begin(
        self,
        layout: SceneLayout,
        title: str,
        fields: Sequence[SettingField] | None,
        color: str = "height",
        drive: ArmDrive | None = None,
    ) -> None:
        """Show other environments.

        Args:
            layout: What does not change while they run.
            title: What runs, as Markdown.
            fields: Settings that they can be built again with; None where another program steps them, and nobody here
                controls them.
            color: Which of the layout's ways colours the points at first.
            drive: Told how the person drives the arm; None: somebody else acts.
        """
        self._frame = None
        self.scene = ViserScene(self._server, layout)
        self.panel = Panel(self._server, self.scene, layout, self._controls, title, fields, color, drive)

    def show(self, frame: SceneFrame) -> None:
        """Show a frame, and remember it for the curves."""
        self._frame = frame
        self.panel.remember(frame)
        self.redraw()

    def redraw(self) -> None:
        """Show the last frame as the panel says now."""
        if self._frame is None:
            return
        with self._server.atomic():
            self.scene.draw(self._frame, self.panel.color.value, self.panel.point_size.value / 1000.0)
            self.panel.draw(self._frame)
        self.update_status()

    def update_status(self) -> None:
        """Say what runs at the moment."""
        self.panel.say(0 if self._frame is None else self._frame.step)

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()
