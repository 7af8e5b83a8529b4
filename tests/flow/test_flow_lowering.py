"""What the native code is asked for in flows and cuts on CUDA; a GPU is not needed to see it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import native_calls, x64
from jax.sharding import AxisType, PartitionSpec

import jaxmatch as jm
from jaxmatch._library import libraries


def lowered(monkeypatch, call, *arguments):
    """The attributes of the native calls in the program for CUDA, and the program."""
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    text = jax.jit(call).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    return native_calls(text), text


def path(size, layout="rcsr"):
    """Of a size that nothing has been traced for yet."""
    return jm.FlowNetwork.from_edges(
        np.arange(size), np.arange(1, size + 1), size + 1, layout=layout
    )


def flow_calls(monkeypatch, size, layout="rcsr", **given):
    solve = partial(jm.maximum_flow, path(size, layout), source=0, sink=size, **given)
    return lowered(monkeypatch, solve, jnp.ones(size, jnp.int32))


SOLVERS = {  # on CUDA; None is the twin
    "auto": "auto", "augment": "auto", "pseudoflow": "auto",
    "thread_centric": "thread_centric", "two_level": "two_level", "xla": None,
}  # fmt: skip


@pytest.mark.parametrize("method", SOLVERS)
def test_methods(method, monkeypatch):
    calls, text = flow_calls(monkeypatch, 201, method=method)
    solver = SOLVERS[method]
    assert len(calls) == (solver is not None)
    if solver is not None:
        assert "custom_call @jaxmatch_flow(" in text
        assert calls[0]["method"] == solver and calls[0]["steps"] == "0"


OPTIONS = [
    ("two_level", "bcsr", {}, "tile=degree cycle=0 layout=bcsr"),
    ("two_level", "csr", {"tile": 4}, "tile=4 cycle=0 layout=csr"),
    ("two_level", "rcsr", {"tile": 32, "cycle": 7}, "tile=32 cycle=7 layout=rcsr"),
    ("thread_centric", "bcsr", {"cycle": 100}, "cycle=100 layout=bcsr"),
    ("pseudoflow", "csr", {}, ""),
]


@pytest.mark.parametrize("case", range(len(OPTIONS)))
def test_options_and_layouts_become_attributes(case, monkeypatch):
    method, layout, options, text = OPTIONS[case]
    (call,), _ = flow_calls(monkeypatch, 210 + case, layout, method=method, options=options)
    assert call["options"] == text


@pytest.mark.parametrize("on", [False, True], ids=["32 bits", "x64"])
def test_steps_lower_to_a_loop(on, monkeypatch):
    with x64(on):
        calls, text = flow_calls(monkeypatch, 230 + on, steps_per_call=5)
    assert "stablehlo.while" in text
    assert {int(call["steps"]) for call in calls} == {5}
    # The state goes from call to call in place.
    assert text.count("#stablehlo.output_operand_alias<") == 2 * len(calls)


@pytest.mark.parametrize("rounds", [None, 2])
def test_cuda_under_shard_map(rounds, monkeypatch):
    """Results, and the loop's state, vary over the mesh as capacities do."""
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    devices = jax.devices("cpu")[:4]
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    over = PartitionSpec("batch")
    network = path(240 + (rounds or 0))
    solve = partial(
        jm.maximum_flow, network, source=0, sink=network.num_nodes - 1, steps_per_call=rounds
    )
    sharded = jax.shard_map(solve, mesh=mesh, in_specs=over, out_specs=over)
    capacity = np.full((4, network.num_edges), 3, np.int32)
    res = jax.jit(sharded)(capacity)  # runs on the CPU; the CUDA branch is traced beside it
    np.testing.assert_array_equal(res.value, 3)


@pytest.mark.parametrize("method, native", [("auto", 1), ("push_relabel", 1), ("xla", 0)])
def test_grid_cuts(method, native, monkeypatch):
    call = partial(jm.grid_cut, method=method)
    grid, pairwise = jnp.ones((3, 5, 31)), jnp.ones((3, 2, 5, 31))
    calls, text = lowered(monkeypatch, call, grid, grid, pairwise)
    assert len(calls) == native == text.count("custom_call @jaxmatch_grid_cut(")
    if calls:
        assert int(calls[0]["connectivity"]) == 4
