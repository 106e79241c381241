# SPDX-License-Identifier: BSD-3-Clause
"""Checks that keep a bad environment from reaching the learner.

Nothing is loaded before it is asked for: see :mod:`isaaclab_pc.envs`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
