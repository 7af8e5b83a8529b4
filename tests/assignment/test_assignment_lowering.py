"""What runs on CUDA: native code, as on the CPU. A GPU is not needed to see it."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from helpers import x64

import jaxmatch as jm
from jaxmatch._assignment import native
from jaxmatch._library import libraries


BLOCKS, CORE, UNITS = "jaxmatch_assignment", "jaxmatch_assignment_core", "jaxmatch_transport"
LONG = 4097

# ((batch, n, m), dtype of costs, dtype of unmatched costs, x64, targets in any order)
CASES = [
    ((1, 300, 300), "float32", None, False, (BLOCKS,)),
    ((1, 300, 300), "float32", "float32", False, (BLOCKS,)),
    ((900, 4096, 4), "int32", "float32", False, (BLOCKS,)),
    ((1, 2048, 2048), "int64", "int64", True, (BLOCKS,)),
    ((1, 1024, 1024), "float32", None, False, (BLOCKS, CORE)),
    ((1, LONG, LONG), "float32", None, False, (CORE,)),
    ((1, LONG, LONG), "float32", "float32", False, (CORE,)),
    ((3, LONG, 5000), "bfloat16", "float32", False, (CORE,)),
    ((1, 5000, LONG), "float64", "float64", True, (CORE,)),
    ((1, LONG, LONG), "float32", "float64", True, (CORE,)),
    ((1, LONG, LONG), "int32", "int32", False, (CORE,)),
    ((1, LONG, LONG), "int32", "float32", False, (CORE,)),
    ((1, LONG, LONG), "int32", "int64", True, (CORE, UNITS)),
    ((1, 2049, 2049), "int64", None, True, (UNITS,)),
    ((2, 100, 2049), "int64", "int64", True, (UNITS,)),
    ((1, LONG, 20), "float32", None, False, (CORE,)),
    ((1, LONG, 20), "float32", "float32", False, (UNITS,)),
    ((1, LONG, 20), "int32", "float32", False, (UNITS,)),
    ((1, 2**18, 20), "float32", None, False, (UNITS,)),
    ((1, 20, 2**18), "int32", "int32", False, (UNITS,)),
    ((1, LONG, 0), "float32", "float32", False, (UNITS,)),
    ((1, 0, LONG), "float32", None, False, (UNITS,)),
]


def program(monkeypatch, shape, dtype, gates, **options):
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    arguments = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))]
    if gates is not None:
        arguments.append(jax.ShapeDtypeStruct(shape[:-1], jnp.dtype(gates)))

    def solve(cost, unmatched_cost=None):
        return jm.solve_assignment(cost, unmatched_cost=unmatched_cost, **options)

    return jax.jit(solve).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("shape, dtype, gates, on, expected", CASES, ids=str)
def test_targets(shape, dtype, gates, on, expected, monkeypatch):
    with x64(on):
        text = program(monkeypatch, shape, dtype, gates)
    assert {*re.findall(r"custom_call @(\w+)\(", text)} == {*expected}
    assert "stablehlo.while" not in text  # the loops of the twin


@pytest.mark.parametrize("shape, gates", [((1, LONG, 30), None), ((1, LONG, LONG), "float32")])
def test_by_name(shape, gates, monkeypatch):
    """The name of the method for blocks stands for what solves longer sides, too."""
    text = program(monkeypatch, shape, "float32", gates, method="jonker_volgenant")
    assert {*re.findall(r"custom_call @(\w+)\(", text)} == {CORE}


@pytest.mark.parametrize(
    ("kilobytes", "side", "expected"),
    [(227, 4096, BLOCKS), (163, 2941, BLOCKS), (163, 2942, CORE), (99, 1786, BLOCKS),
     (99, 1787, CORE), (None, 4096, BLOCKS)],
)  # fmt: skip
def test_gpus_with_less_shared_memory(kilobytes, side, expected, monkeypatch):
    """Batches of sides that do not fit a block there are solved one problem after the other."""
    shared = kilobytes and kilobytes << 10
    monkeypatch.setattr(native, "shared_memory", lambda: shared)
    text = program(monkeypatch, (999, side, side), "float32", None)
    assert {*re.findall(r"custom_call @(\w+)\(", text)} == {expected}


def test_what_is_left_to_the_twin(monkeypatch):
    with x64(True):
        text = program(monkeypatch, (1, 2100, 2100), "int64", "float64")
    assert {*re.findall(r"custom_call @(\w+)\(", text)} == {CORE}
    assert "stablehlo.case" in text and "stablehlo.while" in text


def test_under_vmap_and_grad(monkeypatch):
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    cost = jax.ShapeDtypeStruct((2, LONG, LONG), jnp.float32)
    r = jax.ShapeDtypeStruct((LONG,), jnp.float32)
    value = jax.vmap(lambda c, r: jm.solve_assignment(c, unmatched_cost=r).cost, (0, None))
    grad = jax.grad(lambda c, r: value(c, r).sum(), (0, 1))
    text = jax.jit(grad).trace(cost, r).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("custom_call @jaxmatch_assignment_core(") == 1
    assert "tensor<2x4097x8194xf32>" in text and "stablehlo.while" not in text


@pytest.mark.parametrize("on", [False, True], ids=["32 bits", "x64"])
def test_one_call_of_each_solver(on, monkeypatch):
    """Under `vmap`, too, where the choice is made for the whole batch."""
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    with x64(on):
        cost = jax.ShapeDtypeStruct((2, 10, 4200), jnp.int32)
        r = jax.ShapeDtypeStruct((2, 10), jnp.int64 if on else jnp.int32)
        solve = partial(jax.vmap(lambda c, r: jm.solve_assignment(c, unmatched_cost=r)))
        text = jax.jit(solve).trace(cost, r).lower(lowering_platforms=("cuda",)).as_text()
    calls = re.findall(r"custom_call @(\w+)\(", text)
    assert sorted(calls) == ([CORE, UNITS] if on else [CORE])


@pytest.mark.parametrize(
    "n, dims, dtype, options, expected",
    [
        (300, 3, "float32", {}, (BLOCKS,)),
        (1024, 3, "float32", {}, (BLOCKS, CORE)),
        (1025, 3, "float32", {}, (CORE,)),
        (300, 65, "float32", {}, (CORE,)),
        (300, 3, "float64", {}, (CORE,)),
        (300, 3, "float32", {"method": "core"}, (CORE,)),
        (300, 3, "float32", {"time_limit": 1.0}, (CORE,)),
    ],
    ids=str,
)
def test_few_points_are_a_matrix(n, dims, dtype, options, expected, monkeypatch):
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    solve = partial(jm.solve_assignment_points, **options)
    with x64(dtype == "float64"):
        points = jax.ShapeDtypeStruct((n, dims), jnp.dtype(dtype))
        program = jax.jit(solve).trace(points, points).lower(lowering_platforms=("cuda",)).as_text()
    assert {*re.findall(r"custom_call @(\w+)\(", program)} == {*expected}
