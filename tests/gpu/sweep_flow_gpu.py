"""Small networks and grids by every flow kernel on the GPU, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_flow_gpu.py [PART ...]

test_sanitizer.py runs it, a process for each of `PARTS`. Results are compared with those of the
native CPU methods, on the CPU: such a tool is to see our kernels and few others.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flow_helpers import random_edges
from grid_cut_helpers import random_grid

import jaxmatch as jm


PARTS = ["auto", "thread_centric", "two_level", "grids"]
LAYOUTS = {"auto": ["rcsr"], "thread_centric": ["rcsr", "bcsr", "csr"]}


def on_cpu(f: Callable[[], Any]) -> Any:
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, f())


def networks(rng: np.random.Generator, layout: str) -> dict[str, tuple[Any, ...]]:
    """Network, capacities, source and sink, by what is special about them."""

    def of(n: int, edges: np.ndarray, most: int, *batch: int) -> tuple[Any, ...]:
        network = jm.FlowNetwork.from_edges(*edges.T, n, layout=layout)
        return network, rng.integers(0, most, (*batch, len(edges))), 0, n - 1

    at = np.arange(1, 3000)
    hub = np.r_[np.c_[0 * at, at], np.c_[at, 0 * at + 3000]]
    path = np.c_[np.arange(700), np.arange(1, 701)]
    return {
        "small": of(12, random_edges(rng, 12, 30, 60), 9),
        "many": of(12, random_edges(rng, 12, 30, 60), 9, 40),
        "middle": of(1500, random_edges(rng, 1500, 6000, 7000), 1000),
        "hubs": of(3001, hub, 5),
        "path": of(701, path, 2**31 - 1),  # sums of 64 bits
        "nothing": of(3, np.zeros((0, 2), np.int64), 5),
    }


def damaged(network: jm.FlowNetwork) -> list[jm.FlowNetwork]:
    """Pointers and indices that lead out of the arrays."""
    bad = []
    for name in ("arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge"):
        array = jnp.asarray(getattr(network, name))
        for value in (2**31 - 1, -(2**31)):
            wrong = array.at[array.shape[-1] // 2].set(jnp.int32(value))
            bad.append(jm.FlowNetwork(**(vars(network) | {name: wrong})))
    return bad


def solve_networks(method: str, layout: str) -> int:
    tiles = [{}, *({"tile": tile} for tile in (4, 32))] if method == "two_level" else [{}]
    solved = 0
    for name, problem in networks(np.random.default_rng(0), layout).items():
        ways = [{"options": options} for options in tiles]
        if name == "small":
            ways.append({"steps_per_call": 2})
        dtypes = ["int32", "float32"] if name == "middle" else ["int32"]
        for dtype in dtypes:
            network, capacity, *ends = problem
            given = jax.tree.map(np.asarray, (network, capacity.astype(dtype), *ends))
            expected = on_cpu(lambda given=given: jm.maximum_flow(*given))
            for way in ways:
                print(method, layout, name, dtype, way, flush=True)
                res = jax.tree.map(np.asarray, jm.maximum_flow(*given, method=method, **way))
                np.testing.assert_array_equal(res.value, expected.value)
                np.testing.assert_array_equal(res.source_side, expected.source_side)
                check = on_cpu(lambda given=given, res=res: jm.check_flow(*given, res))
                assert check.optimal.all()
                solved += res.value.size
        if name in ("small", "middle"):
            for bad in damaged(problem[0]):
                res = jm.maximum_flow(bad, *problem[1:], method=method)
                assert res.status == jm.Status.INVALID_GRAPH
    return solved


def solve_grids() -> int:
    """Of one tile and one block, of many, and of many that take turns."""
    rng = np.random.default_rng(0)
    solved = 0
    for connectivity in (4, 8, 6):
        solid = connectivity == 6
        shapes = [(3, 4, 5), (9, 20, 31)] if solid else [(7, 9), (70, 90)]
        cases = [(shape, "int32") for shape in shapes] + [(shapes[1], "float32")]
        cases += [((3, *shapes[0]), "int32")]
        if connectivity == 4:
            cases.append(((1200, 1300), "int32"))
        for shape, dtype in cases:
            print(connectivity, shape, dtype, flush=True)
            grid = shape[1:] if len(shape) > (3 if solid else 2) else shape
            given = random_grid(rng, grid, connectivity, most=50, dtype=np.dtype(dtype))
            if grid != shape:
                given = tuple(np.broadcast_to(x, (shape[0], *x.shape)) for x in given)
            res = jm.grid_cut(*given, connectivity=connectivity)
            expected = on_cpu(
                lambda given=given, c=connectivity: jm.grid_cut(*given, connectivity=c)
            )
            np.testing.assert_array_equal(res.value, expected.value)
            np.testing.assert_array_equal(res.source_side, expected.source_side)
            solved += res.value.size
    return solved


def main(parts: list[str]) -> None:
    for part in parts:
        if part == "grids":
            solved = solve_grids()
        else:
            layouts = LAYOUTS.get(part, ["rcsr", "bcsr"])
            solved = sum(solve_networks(part, layout) for layout in layouts)
        print(f"{part}: solved {solved}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or PARTS)
