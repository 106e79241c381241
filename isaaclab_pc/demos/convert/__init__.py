# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that convert demonstrations, each with an environment of its own: no import of this package."""
