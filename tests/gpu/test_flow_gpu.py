"""What only a GPU shows of flows and grid cuts: large problems in batches and steps, wide numbers
in many tiles, calls that are captured into graphs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_cut_helpers import random_grid
from helpers import to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.gpu
CUDA, CPU = (lambda: jax.devices("cuda")[0]), (lambda: jax.devices("cpu")[0])


def noisy_image(side, seed=0):
    """A square grid whose cells are all joined to both terminals; too large for one block."""
    at = np.arange(side * side).reshape(side, side)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    pairs += [(q, p) for p, q in pairs]
    pairs += [(0 * at + side * side, at), (at, 0 * at + side * side + 1)]
    senders, receivers = (
        np.concatenate([x.ravel() for x in xs]) for xs in zip(*pairs, strict=True)
    )
    network = jm.FlowNetwork.from_edges(senders, receivers, side * side + 2)
    capacity = np.random.default_rng(seed).random((3, len(senders)))
    return network, capacity, side * side, side * side + 1


@pytest.fixture(scope="module")
def image():
    return noisy_image(75)


@pytest.mark.parametrize("rounds", [None, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("method", ["auto", "two_level"])
def test_a_batch_of_large_networks(image, method, dtype, rounds):
    """One after another by the whole GPU; capacities that need all of their bits."""
    network, capacity, *ends = image
    assert network.num_nodes + network.arc_head.shape[-1] > 32768
    with x64("64" in dtype):
        scale = {"int32": 1e5, "int64": 2.0**45}.get(dtype, 1.0)
        capacity = (capacity * scale).astype(dtype)
        with jax.default_device(CPU()):
            expected = to_numpy(jm.maximum_flow(network, capacity, *ends))
        with jax.default_device(CUDA()):
            res = to_numpy(
                jm.maximum_flow(network, capacity, *ends, method=method, steps_per_call=rounds)
            )
        np.testing.assert_array_equal(res.source_side, expected.source_side)
        np.testing.assert_allclose(
            res.value, expected.value, rtol=1e-6 if dtype == "float32" else 0
        )
        check = jm.check_flow(network, capacity, *ends, res)
        assert check.valid.all() and check.optimal.all()


def test_large_networks_agree_with_themselves(image):
    """Flows may differ from solve to solve, values and cuts do not."""
    network, capacity, *ends = image
    capacity = jnp.asarray(capacity[0], jnp.float32)
    with jax.default_device(CUDA()):
        first = jm.maximum_flow(network, capacity, *ends)
        for _ in range(100):
            res = jm.maximum_flow(network, capacity, *ends)
            assert res.value == first.value
            np.testing.assert_array_equal(res.source_side, first.source_side)


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
@pytest.mark.parametrize("connectivity, shape", [(4, (70, 90)), (8, (70, 90)), (6, (9, 20, 31))])
def test_wide_numbers_in_many_tiles(connectivity, shape, dtype):
    rng = np.random.default_rng(connectivity)
    given = random_grid(rng, shape, connectivity, most=2**40, dtype=np.int64)
    with x64(True):
        if dtype != "int64":
            given = tuple((np.abs(x) / 3).astype(dtype) for x in given)
        with jax.default_device(CPU()):
            expected = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
        with jax.default_device(CUDA()):
            res = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
    np.testing.assert_array_equal(res.source_side, expected.source_side)
    np.testing.assert_allclose(
        res.value, expected.value, rtol=1e-6 if dtype == "float32" else 1e-14
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    "connectivity, batch, shape",
    [
        (4, 8, (128, 128)),  # 16 blocks each on an H200
        (4, 3, (200, 77)),  # tiles that the grid does not fill
        (4, 40, (33, 50)),  # each fits one block
        (4, 133, (20, 53)),  # one block each
        (4, 70, (90, 101)),  # more than there are teams
        (8, 5, (100, 75)),
        (6, 4, (9, 20, 31)),
    ],
)
def test_batches_of_grids_by_teams(connectivity, batch, shape, dtype):
    """The values and the cuts of the CPU; refused grids do not disturb the others."""
    rng = np.random.default_rng(batch)
    grids = [random_grid(rng, shape, connectivity, most=2**20, directed=True) for _ in range(batch)]
    given = [np.stack(x).astype(dtype) for x in zip(*grids, strict=True)]
    if given[0].dtype.kind == "f":
        given = [np.abs(x) / 3 for x in given]
    given[0][batch // 2][(0,) * len(shape)] = -1
    with x64(True):
        with jax.default_device(CPU()):
            expected = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
        with jax.default_device(CUDA()):
            res = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
            last = to_numpy(jm.grid_cut(*(x[-1] for x in given), connectivity=connectivity))
    rtol = {"float32": 1e-6, "float64": 1e-14}.get(dtype, 0)
    np.testing.assert_array_equal(res.status, expected.status)
    np.testing.assert_array_equal(res.source_side, expected.source_side)
    np.testing.assert_allclose(res.value, expected.value, rtol=rtol)
    np.testing.assert_allclose(res.value[-1], last.value, rtol=rtol)
    np.testing.assert_array_equal(res.source_side[-1], last.source_side)


@pytest.mark.parametrize("smoothness", [0.6, 2.0])
@pytest.mark.parametrize("batch, side", [(1, 128), (8, 128), (32, 64), (2, 256)])
def test_cuts_of_noise(batch, side, smoothness):
    """Flow goes far, so that distances must be exact many times."""
    source = np.random.default_rng(batch).random((batch, side, side)).astype(np.float32)
    given = source, 1 - source, np.full((batch, 2, side, side), smoothness, np.float32)
    with jax.default_device(CPU()):
        expected = to_numpy(jm.grid_cut(*given))
    with jax.default_device(CUDA()):
        res = to_numpy(jm.grid_cut(*given))
    np.testing.assert_array_equal(res.source_side, expected.source_side)
    np.testing.assert_allclose(res.value, expected.value, rtol=1e-6)


def test_a_volume_whose_tiles_take_turns():
    rng = np.random.default_rng(0)
    given = random_grid(rng, (100, 110, 120), 6, most=50, directed=False)
    with jax.default_device(CPU()):
        expected = to_numpy(jm.grid_cut(*given, connectivity=6))
    with jax.default_device(CUDA()):
        res = to_numpy(jm.grid_cut(*given, connectivity=6))
    assert res.value == expected.value
    np.testing.assert_array_equal(res.source_side, expected.source_side)


def test_calls_are_captured_into_graphs(image):
    """Capacities that depend on the last result: each call of the graph sees new ones."""
    network, capacity, *ends = image
    capacity = jnp.asarray(capacity[0], jnp.float32)
    grid = jnp.asarray(np.random.default_rng(1).random((4, 75, 75)), jnp.float32)

    def chain(capacity, grid):
        def body(_, carry):
            capacity, grid = carry
            value = jm.maximum_flow(network, capacity, *ends).value
            cut = jm.grid_cut(grid[0], grid[1], grid[2:]).value
            return capacity * (1 + 1e-3 * jnp.sin(value)), grid * (1 + 1e-3 * jnp.cos(cut))

        capacity, grid = jax.lax.fori_loop(0, 4, body, (capacity, grid))
        flow = jm.maximum_flow(network, capacity, *ends)
        return flow.value, flow.source_side, jm.grid_cut(grid[0], grid[1], grid[2:]).source_side

    options = {
        "xla_gpu_enable_command_buffer": "FUSION,CUSTOM_CALL,CONDITIONAL,WHILE",
        "xla_gpu_graph_min_graph_size": 1,
    }
    with jax.default_device(CUDA()):
        expected = jax.jit(chain)(capacity, grid)
        captured = jax.jit(chain, compiler_options=options)
        for _ in range(3):
            for one, other in zip(captured(capacity, grid), expected, strict=True):
                np.testing.assert_array_equal(one, other)
