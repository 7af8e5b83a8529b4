"""The suites of peers, as they are installed, run with our functions in the place of theirs."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


HERE = Path(__file__).parent
ROOT = HERE.parents[1]

_CSGRAPH = "scipy.sparse.csgraph.tests"
_NETWORKX = "networkx.algorithms"
SUITES = {
    "scipy": [
        "scipy.optimize.tests.test_linear_assignment",
        f"{_CSGRAPH}.test_matching",
        f"{_CSGRAPH}.test_flow",
    ],
    "optax": ["optax.assignment._hungarian_algorithm_test"],
    "networkx": [
        f"{_NETWORKX}.flow.tests.test_maxflow",
        f"{_NETWORKX}.flow.tests.test_maxflow_large_graph",
        f"{_NETWORKX}.flow.tests.test_gomory_hu",
        f"{_NETWORKX}.flow.tests.test_mincost",
        f"{_NETWORKX}.flow.tests.test_networksimplex",
        f"{_NETWORKX}.connectivity.tests.test_connectivity",
        f"{_NETWORKX}.connectivity.tests.test_cuts",
        f"{_NETWORKX}.connectivity.tests.test_disjoint_paths",
        f"{_NETWORKX}.connectivity.tests.test_edge_kcomponents",
        f"{_NETWORKX}.connectivity.tests.test_kcomponents",
        f"{_NETWORKX}.connectivity.tests.test_kcutsets",
        f"{_NETWORKX}.bipartite.tests.test_matching",
        f"{_NETWORKX}.bipartite.tests.test_covering",
        f"{_NETWORKX}.bipartite.tests.test_extendability",
    ],
}

# By peer, tests that are left out, and why.
LEFT_OUT = {
    "networkx": {
        "test_articulation_points": "a quarter of the time, in thousands of flows alike",
    },
}


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("peer", SUITES)
def test_peers_own_tests(peer, tmp_path):
    files = SUITES[peer]
    if peer == "optax" and not _is_installed(files[0]):
        pytest.skip("the installed optax ships no tests")
    paths = [ROOT, HERE / "adapters", os.environ.get("PYTHONPATH", "")]
    plugin = ["-p", "in_place_of", "--in-place-of", peer]
    alone = ["-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", tmp_path]
    run = [sys.executable, "-m", "pytest", "-rfE", *alone, *plugin]
    left_out = LEFT_OUT.get(peer, {})
    if left_out:
        run += ["-k", " and ".join(f"not {name}" for name in left_out)]
    done = subprocess.run(
        [*run, "--pyargs", *files],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    print(done.stdout[-5000:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("deselected" in done.stdout) == bool(left_out)


@pytest.mark.parametrize("peer", ["igraph", "lapx"])
def test_peers_without_tests(peer):
    """Once one ships tests, they belong to `SUITES`."""
    try:
        files = importlib.metadata.files(peer) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{peer} is not installed")
    tests = [str(file) for file in files if file.match("test_*.py") or file.match("*_test.py")]
    assert not tests
    pytest.skip(f"{peer} {importlib.metadata.version(peer)} ships no tests")
