# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts call.

The parent (``train``, ``play``, ``list_tasks``) loads no torch and no simulator; ``worker`` and ``session`` run in the
child processes that it starts.
"""
