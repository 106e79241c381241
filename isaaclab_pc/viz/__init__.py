# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of what was measured. The modules load matplotlib, this package does not."""
