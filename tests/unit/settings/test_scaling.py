# SPDX-License-Identifier: BSD-3-Clause
"""Memory budgets as users write them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.scaling import parse_budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (0.8, 0.8),
        (1, 1.0),
        ("0.5", 0.5),
        ("80%", 0.8),
        (" 100 % ", 1.0),
        ("20GiB", 20 << 30),
        ("20G", 20 << 30),
        ("20Gi", 20 << 30),
        ("20GB", 20 * 10**9),
        ("1.5 gib", 3 << 29),
        ("512 MB", 512 * 10**6),
        (2**31, 2**31),
        ("2048b", 2048),
    ],
)
def test_a_fraction_or_a_size_is_read(text, budget):
    found = parse_budget(text)
    assert found == budget
    assert isinstance(found, float) == (0 < budget <= 1)


@pytest.mark.parametrize(
    "text", [0, 1.5, -1, "0", "0%", "120%", "50%GB", "lots", "", "GiB", True, float("nan"), float("inf"), "1B"]
)
def test_others_are_refused(text):
    with pytest.raises(ConfigError, match=r"^scaling\.budget="):
        parse_budget(text)


@given(st.text() | st.integers() | st.floats() | st.from_regex(r"[0-9]{1,400}(\.[0-9]+)? ?[kmgtKMGT]?i?[bB%]?"))
@example("9" * 400 + "TB")
@example("9" * 307 + "TB")
def test_whatever_is_written_is_a_budget_or_refused(text):
    try:
        budget = parse_budget(text)
    except ConfigError:
        return
    assert 0 < budget <= 1 if isinstance(budget, float) else budget >= 2
