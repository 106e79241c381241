# SPDX-License-Identifier: BSD-3-Clause
"""Files, records in JSON and installed packages, for every room. Loads no torch."""
