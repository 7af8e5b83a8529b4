"""The recipes of docs/from_pot.md: each block runs, and gives POT's or OTT-JAX's numbers."""

from typing import Any

import jax
import numpy as np
import pytest
from helpers import x64
from pages import blocks_of, run_block


PAGE = "docs/from_pot.md"
BLOCKS = blocks_of(PAGE)
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
    run_block(PAGE, block, names, NEEDS, rtol=1e-9, atol=1e-12)
    if "theirs" in names:
        assert np.asarray(names["ours"]).dtype == np.float64
