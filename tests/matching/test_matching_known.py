"""Graphs whose maximum matchings others have found and agree on."""

import numpy as np
import pytest
import scipy.sparse as sp
from matching_helpers import ladder

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


KNOWN = {
    "4elt": 15606,
    "Franz6_id1959_aug": 3016,
    "Groebner_id2003_aug": 2456,
    "NotreDame_www": 102992,
    "PGPgiantcompo": 8159,
    "as-22july06": 6601,
    "astro-ph": 15716,
    "bcsstk13": 2003,
    "cond-mat-2005": 37968,
    "copter2": 55476,
    "cryg2500": 2500,
    "debian_basename": 32179,
    "debian_depends": 32457,
    "email-Enron": 25119,
    "jagmesh7": 1138,
    "kahip_delaunay_n15": 32768,
    "kahip_rgg_n_2_15_s0": 32766,
    "ladder_L28": 85,
    "ladder_L40": 121,
    "lp_afiro": 27,
    "netscience": 1424,
    "olm1000": 1000,
    "pgp-strong-2009": 32852,
    "polblogs": 788,
    "strip_4x16384": 32762,
    "west0067": 67,
    "wing": 62032,
}
NAMED = ["hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_pfp"]
# Depth-first searches are exponential here if they do not mark dead ends, scipy's among them.
DEEP = ["copter2", "ladder_L28", "ladder_L40"]
# Skewed degrees, a tall one, long augmenting paths.
OTHERS = ["NotreDame_www", "Franz6_id1959_aug", "kahip_rgg_n_2_15_s0", "debian_basename"]


def load(data_dir, name):
    path = data_dir / "graphs" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with np.load(path) as file:
        indptr, indices, shape = file["indptr"], file["indices"], tuple(file["shape"])
    values = np.ones(len(indices), bool)
    return jm.BipartiteGraph.from_scipy(sp.csr_array((values, indices, indptr), shape=shape))


def assert_known(graph, name, **given):
    res = jm.maximum_bipartite_matching(graph, **given)
    assert int(res.cardinality) == KNOWN[name], given
    check = jm.check_matching(graph, res)
    assert check.valid and check.optimal, given


@pytest.mark.parametrize("name", KNOWN)
def test_auto(data_dir, name):
    graph = load(data_dir, name)
    assert_known(graph, name)
    assert_known(graph, name, init="karp_sipser")


@pytest.mark.parametrize("name", DEEP + OTHERS)
def test_named_methods(data_dir, name, platform):
    graph = load(data_dir, name)
    for method in NAMED:
        if platform == "cpu" or method not in ("pothen_fan", "p_pfp"):  # no kernel: the twin
            assert_known(graph, name, method=method)


@pytest.mark.parametrize("name", ["ladder_L28", "west0067", "lp_afiro", "jagmesh7", "netscience"])
def test_twin(data_dir, name):
    assert_known(load(data_dir, name), name, method="xla")


@pytest.mark.parametrize("levels", [28, 40, 1000])
@pytest.mark.parametrize("method", ["auto", *NAMED])
def test_ladders_take_no_exponential_time(method, levels, platform):
    if platform == "cuda" and method in ("pothen_fan", "p_pfp") and levels > 40:
        pytest.skip("the twin takes a step for each level")
    graph = ladder(levels)
    for init in ("none", "cheap", "karp_sipser"):
        res = jm.maximum_bipartite_matching(graph, method=method, init=init)
        assert int(res.cardinality) == 3 * levels + 1
        assert jm.check_matching(graph, res).optimal
