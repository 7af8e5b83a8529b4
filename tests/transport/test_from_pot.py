"""The recipes of docs/from_pot.md: each block runs, and gives POT's or OTT-JAX's numbers."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers import x64


TEXT = (Path(__file__).parents[2] / "docs" / "from_pot.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
# What a block takes from earlier ones, by the names that it uses.
NEEDS = {"ot": r"\bot\.", "ott": r"\bott\b|geometry|unreg", "torch": r"\btorch\."}


@pytest.fixture(scope="module", autouse=True)
def float64_and_any_promotion():
    """As in a script of a user: the first block turns x64 on."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")
    with x64(True):
        yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Variables of the blocks that have run."""
    pytest.importorskip("ot")
    return {}


def test_there_are_blocks():
    assert len(BLOCKS) > 10 and sum("theirs" in block for block in BLOCKS) >= len(BLOCKS) - 2


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block, names):
    for package, pattern in NEEDS.items():
        if re.search(pattern, block):
            pytest.importorskip(package)
    names.pop("theirs", None)
    exec(compile(block, "docs/from_pot.md", "exec"), names)
    if "theirs" in names:
        ours, theirs = (np.asarray(names[name]) for name in ("ours", "theirs"))
        assert ours.dtype == np.float64 and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
