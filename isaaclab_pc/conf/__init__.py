# SPDX-License-Identifier: BSD-3-Clause
"""Hydra configs: ``train.yaml`` and its groups; ``pkg://isaaclab_pc.conf`` needs this to be a package."""
