# SPDX-License-Identifier: BSD-3-Clause
"""Networks, and one training configuration per runner and task."""
