"""The pages leave out no way in which a build can fail."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from harness.build.outcome import FailureCode


@pytest.mark.parametrize("page", ["building.md", "report.md"])
def test_every_way_to_fail_is_in_the_pages(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    assert [code for code in get_args(FailureCode) if f"`{code}`" not in text] == []
