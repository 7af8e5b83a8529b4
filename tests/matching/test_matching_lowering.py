"""What the native code is asked for, on CUDA and on the CPU; a GPU is not needed to see it."""

from functools import partial

import jax
import numpy as np
import pytest
from helpers import native_calls, x64
from jax.sharding import AxisType, PartitionSpec
from matching_helpers import assert_maximum, from_edges

import jaxmatch as jm
from jaxmatch._ffi import libraries
from jaxmatch._matching import native


def lowered(monkeypatch, size, platform="cuda", **given):
    """The attributes of the native calls in the program for a platform."""
    monkeypatch.setattr(libraries, f"has_{platform}_library", lambda: True)
    graph = from_edges([(0, 0)], (size, size))  # a shape of its own: nothing is traced yet
    solve = jax.jit(partial(jm.maximum_bipartite_matching, **given))
    text = solve.trace(graph).lower(lowering_platforms=(platform,)).as_text()
    assert text.count("custom_call @jaxmatch_") == text.count("custom_call @jaxmatch_matching(")
    return native_calls(text), text


SOLVERS = {  # on CUDA; None is the twin
    "auto": "auto", "hopcroft_karp": "apsb", "hkdw": "apfb", "pothen_fan": None,
    "push_relabel": "push_relabel", "p_dbfs": "auto", "p_pfp": None, "p_hk": "apsb",
    "apsb": "apsb", "apfb": "apfb", "init_only": "none", "xla": None,
}  # fmt: skip


@pytest.mark.parametrize("method", SOLVERS)
def test_methods_lower_for_cuda(method, monkeypatch):
    calls, _ = lowered(monkeypatch, 101, method=method)
    solver = SOLVERS[method]
    assert len(calls) == (solver is not None)
    if solver is not None:
        assert int(calls[0]["method"]) == native.MATCHING_METHODS[solver]
        init = "auto" if method == "auto" else "cheap"
        assert int(calls[0]["init"]) == native.MATCHING_INITS[init]
        assert int(calls[0]["given"]) == 0 and int(calls[0]["rounds"]) == 0


CHOICES = [
    ("push_relabel", {}, 2, 0.7),
    ("push_relabel", {"variant": "first"}, 0, 0.7),
    ("push_relabel", {"variant": "active", "k": 1.5}, 1, 1.5),
    ("push_relabel", {"relabel": "fixed"}, 2 + 4, 10),
    ("push_relabel", {"relabel": "fixed", "k": np.float32(50)}, 2 + 4, 50),
    ("apsb", {}, 8 + 32, 0),
    ("apsb", {"alternate": "paths"}, 8, 0),
    ("apsb", {"kernel": "gpubfs"}, 0, 0),
    ("apsb", {"threads": "mt"}, 8 + 16 + 32, 0),
    ("apfb", {}, 8, 0),
    ("apfb", {"alternate": "roots", "kernel": "gpubfs_wr"}, 8 + 32, 0),
    ("apfb", {"kernel": "gpubfs", "threads": "mt"}, 16, 0),
    ("hopcroft_karp", {}, 8 + 32, 0),
    ("hkdw", {}, 8, 0),
    ("p_hk", {}, 8 + 32, 0),
]


@pytest.mark.parametrize("case", range(len(CHOICES)))
def test_options_become_attributes(case, monkeypatch):
    method, options, choice, k = CHOICES[case]
    (call,), _ = lowered(monkeypatch, 110 + case, method=method, options=options)
    assert int(call["choice"]) == choice
    assert float(call["k"]) == pytest.approx(k)


def test_the_cpu_takes_its_own_meaning_of_k(monkeypatch):
    for case, (options, k) in enumerate(
        [({}, 0.5), ({"k": 2}, 2), ({"relabel": "fixed", "k": 9}, 0.5)]
    ):
        given = {"platform": "cpu", "method": "push_relabel", "options": options}
        (call,), _ = lowered(monkeypatch, 150 + case, **given)
        assert (int(call["choice"]), float(call["k"])) == (0, k)


@pytest.mark.parametrize("on", [False, True], ids=["32 bits", "x64"])
def test_steps_lower_to_a_loop(on, monkeypatch):
    start = np.zeros(130, np.int32)
    given = {"method": "push_relabel", "steps_per_call": 5, "warm_start": start}
    with x64(on):
        calls, text = lowered(monkeypatch, 130, **given)
    assert "stablehlo.while" in text
    assert {(int(call["given"]), int(call["rounds"])) for call in calls} == {(3, 5)}
    # The state goes from call to call in place.
    assert text.count("#stablehlo.output_operand_alias<") == 2 * len(calls)


@pytest.mark.parametrize("method", ["auto", "push_relabel", "xla"])
def test_steps_on_cuda_under_shard_map(method, monkeypatch):
    """The loop's state varies over the mesh as the graph does."""
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    devices = jax.devices("cpu")[:4]
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    over = PartitionSpec("batch")
    graphs = jm.BipartiteGraph.stack([from_edges([(0, 0)], (140, 140))] * 4)
    solve = partial(jm.maximum_bipartite_matching, method=method, steps_per_call=2)
    sharded = jax.shard_map(solve, mesh=mesh, in_specs=over, out_specs=over)
    res = jax.jit(sharded)(graphs)  # runs on the CPU; the CUDA branch is traced beside it
    np.testing.assert_array_equal(res.cardinality, 1)


def test_without_native_libraries(monkeypatch):
    for name in ("has_cpu_library", "has_cuda_library"):
        monkeypatch.setattr(libraries, name, lambda: False)
    graph = from_edges([(k, (7 * k) % 150) for k in range(150)], (150, 150))
    for method in ("auto", "p_pfp"):
        assert_maximum(graph, jm.maximum_bipartite_matching(graph, method=method))
    res = jm.maximum_bipartite_matching(graph, method="init_only")
    assert int(res.status) == jm.Status.UNFINISHED
