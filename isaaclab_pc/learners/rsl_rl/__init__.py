# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL: adapter, configuration, model, and the algorithms that it lacks."""
