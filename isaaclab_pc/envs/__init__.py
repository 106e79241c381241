# SPDX-License-Identifier: BSD-3-Clause
"""The environment that all tasks share.

Nothing is loaded before it is asked for: configs are made before Kit has started, and USD's modules, which sensors and
environments need, must not be loaded before it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
