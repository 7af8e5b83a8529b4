"""What the native code is asked for, on CUDA and on the CPU; a GPU is not needed to see it."""

from functools import partial

import jax
import numpy as np
import pytest
from helpers import native_calls, x64
from jax.sharding import AxisType, PartitionSpec
from matching_helpers import assert_maximum, from_edges

import jaxmatch as jm
from jaxmatch._library import libraries


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
    "push_relabel": "push_relabel", "p_pfp": None,
    "apsb": "apsb", "apfb": "apfb", "init_only": "init_only", "xla": None,
}  # fmt: skip


@pytest.mark.parametrize("method", SOLVERS)
def test_methods_lower_for_cuda(method, monkeypatch):
    calls, _ = lowered(monkeypatch, 101, method=method)
    solver = SOLVERS[method]
    assert len(calls) == (solver is not None)
    if solver is not None:
        assert calls[0]["method"] == solver
        assert calls[0]["init"] == ("auto" if method == "auto" else "cheap")
        assert calls[0]["present"] == "" and calls[0]["steps"] == "0"


OPTIONS = [
    ("push_relabel", {}, "variant=shrink relabel=adaptive k=0.7"),
    ("push_relabel", {"variant": "first"}, "variant=first relabel=adaptive k=0.7"),
    ("push_relabel", {"variant": "active", "k": 1.5}, "variant=active relabel=adaptive k=1.5"),
    ("push_relabel", {"relabel": "fixed"}, "variant=shrink relabel=fixed k=10.0"),
    ("push_relabel", {"relabel": "fixed", "k": np.float32(50)},
     "variant=shrink relabel=fixed k=50.0"),
    ("apsb", {}, "kernel=gpubfs_wr threads=ct alternate=roots"),
    ("apsb", {"alternate": "paths"}, "kernel=gpubfs_wr threads=ct alternate=paths"),
    ("apsb", {"kernel": "gpubfs"}, "kernel=gpubfs threads=ct alternate=paths"),
    ("apsb", {"threads": "mt"}, "kernel=gpubfs_wr threads=mt alternate=roots"),
    ("apfb", {}, "kernel=gpubfs_wr threads=ct alternate=paths"),
    ("apfb", {"alternate": "roots", "kernel": "gpubfs_wr"},
     "kernel=gpubfs_wr threads=ct alternate=roots"),
    ("apfb", {"kernel": "gpubfs", "threads": "mt"}, "kernel=gpubfs threads=mt alternate=paths"),
    ("hopcroft_karp", {}, "kernel=gpubfs_wr threads=ct alternate=roots"),
    ("hkdw", {}, "kernel=gpubfs_wr threads=ct alternate=paths"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OPTIONS)))
def test_options_become_attributes(case, monkeypatch):
    method, options, text = OPTIONS[case]
    (call,), _ = lowered(monkeypatch, 110 + case, method=method, options=options)
    assert call["options"] == text


def test_the_cpu_has_its_own_defaults(monkeypatch):
    for case, options in enumerate([{}, {"k": 2.0}, {"relabel": "fixed", "k": 9.0}]):
        given = {"platform": "cpu", "method": "push_relabel", "options": options}
        (call,), _ = lowered(monkeypatch, 150 + case, **given)
        expected = sorted(f"{name}={value}" for name, value in options.items())
        assert call["options"].split() == expected


@pytest.mark.parametrize("on", [False, True], ids=["32 bits", "x64"])
def test_steps_lower_to_a_loop(on, monkeypatch):
    start = np.zeros(130, np.int32)
    given = {"method": "push_relabel", "steps_per_call": 5, "warm_start": start}
    with x64(on):
        calls, text = lowered(monkeypatch, 130, **given)
    assert "stablehlo.while" in text
    assert {(call["present"], call["steps"]) for call in calls} == {("start state", "5")}
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
