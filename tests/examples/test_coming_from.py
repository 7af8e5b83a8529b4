"""The recipes of docs/guides/coming_from.md: each block runs, and gives the other's numbers."""

import jax
import pytest
from pages import blocks_of, run_block


PAGE = "docs/guides/coming_from.md"
BLOCKS = blocks_of(PAGE)
NEEDS = {
    "scipy": r"\bscipy\b",
    "optax": r"\boptax\b",
    "networkx": r"\bnx\.",
    "lap": r"\blap\.",
    "torch": r"\btorch\.",
}


@pytest.fixture(scope="module", autouse=True)
def any_promotion():
    """As in a script of a user."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def names():
    """Variables of the blocks that have run."""
    return {}


def test_there_are_blocks():
    assert sum("theirs" in block for block in BLOCKS) >= 7


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block, names):
    run_block(PAGE, block, names, NEEDS, rtol=1e-5)
