# SPDX-License-Identifier: BSD-3-Clause
"""A page in a browser that shows running environments beside a panel of controls; served by viser."""

import viser

from isaaclab_pc.viewer.arm_drive import ArmDrive
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import SceneFrame, SceneLayout
from isaaclab_pc.viewer.viser_panel import Panel
from isaaclab_pc.viewer.viser_scene import ViserScene
from isaaclab_pc.viewer.web_address import free_port, host_name

VISER_PORT = 8080
"""viser's usual port, also in Isaac Lab."""


class ViserPage:
    """The page: ``begin`` it with a layout, ``show`` frames, ``close`` it."""

    scene: ViserScene
    """The 3D scene, since :meth:`begin`."""

    panel: Panel
    """The panel, since :meth:`begin`."""

    def __init__(self, host: str, port: int, controls: Controls) -> None:
        """Begin to serve, at the next free port where the port is taken; the controls get the person's requests.

        Raises:
            ConfigError: This user may listen on no such port of the address.
        """
        self._server = viser.ViserServer(host=host, port=free_port(host, port), label="isaaclab_pc", verbose=False)
        self._server.gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
        self._controls = controls
        self._frame: SceneFrame | None = None

    @property
    def url(self) -> str:
        """Address for a browser."""
        return f"http://{host_name(self._server.get_host())}:{self._server.get_port()}"

    def begin(
        self,
        layout: SceneLayout,
        title: str,
        has_controls: bool = False,
        drive: ArmDrive | None = None,
    ) -> None:
        """Show other environments.

        Without controls another program steps them. ``drive`` gets the actions of the person who drives the arm.
        """
        self._frame = None
        self.scene = ViserScene(self._server, layout)
        self.panel = Panel(self._server.gui, self.scene, layout, self._controls, title, has_controls, drive)

    def show(self, frame: SceneFrame) -> None:
        """Show a frame, and remember it for the curves."""
        self._frame = frame
        self.panel.remember(frame)
        self.redraw()

    def redraw(self) -> None:
        """Show the last frame as the panel is set now."""
        if self._frame is None:
            return
        with self._server.atomic():
            self.scene.draw(self._frame, self.panel.point_size.value / 1000.0)
            self.panel.draw(self._frame)
        self.update_status()

    def update_status(self) -> None:
        """Show the present step, and the answer to the last request."""
        self.panel.update_status(0 if self._frame is None else self._frame.step)

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()
