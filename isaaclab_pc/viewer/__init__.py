# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of measurements. The modules load matplotlib, this package does not."""
