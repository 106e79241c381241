# SPDX-License-Identifier: BSD-3-Clause
"""The scripts, one file each: read the settings, start what is needed. Loads neither torch nor a simulator."""
