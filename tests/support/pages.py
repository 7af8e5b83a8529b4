"""Runs the code of pages: of `docs/*.md` the fenced blocks, in order, with shared variables."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest


ROOT = Path(__file__).parents[2]


def blocks_of(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_block(page: str, block: str, names: dict[str, Any], needs: dict[str, str], **close) -> None:
    """Runs a block unless a package is missing: `needs` has a pattern of its uses for each.

    If it sets `theirs`, that must be close to `ours`; `close` are options of `assert_allclose`.
    """
    for package, pattern in needs.items():
        if re.search(pattern, block):
            pytest.importorskip(package)
    names.pop("theirs", None)
    exec(compile(block, page, "exec"), names)
    if "theirs" in names:
        ours, theirs = (np.asarray(names[name]) for name in ("ours", "theirs"))
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, **close)
