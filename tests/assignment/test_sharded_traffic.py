"""What devices exchange for one sharded problem, as docs/several_hosts.md has it."""

import re

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from sharded_helpers import METHODS, SIDES, mesh_of, place, sharded

import jaxmatch as jm
from jaxmatch._assignment.partition import Partition


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
DEVICES = 4


def blocks(method, n, m, by, masked=False):
    """Bytes that each device sends to each other one, by exchange."""
    each, other = (n // DEVICES, m) if by == "row_axis" else (m // DEVICES, n)
    sizes = {"reduction": 64 + 16 * max(n, m), "lists": 64 * (max if masked else min)(n, m)}
    if method == "core":
        sizes["cores"] = 48 * max(32 * each, 32 // DEVICES * other)
        for name, part in (("some", 8), ("few", 64)):
            rows = (each // part * (48 * 32 + 16), other // part * (48 * (32 // DEVICES) + 16))
            sizes[name] = 16 + max(rows)
    return sizes


@pytest.mark.parametrize("by", SIDES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape, masked", [((24, 40), False), ((40, 24), True)])
def test_exchanges_of_the_compiled_program(shape, masked, method, by):
    """All-gathers of these sizes, and nothing else."""
    mask = np.ones(shape[0], bool) if masked else None

    def solve(cost):
        return jm.solve_assignment(cost, row_mask=mask, method=method, **{by: "x"})

    mesh = mesh_of(DEVICES)
    with jax.set_mesh(mesh):
        program = jax.jit(solve).lower(place(np.zeros(shape, np.float32), by, mesh)).compile()
    found = re.findall(r"= (\S+) ((?:all|collective|reduce)-[a-z-]+)\(", program.as_text())
    found = [x for x in found if x[1] not in ("reduce-precision", "reduce-window")]
    assert {name for _, name in found} == {"all-gather"}
    words = {int(re.match(rf"s32\[{DEVICES},(\d+)\]", shape).group(1)) for shape, _ in found}
    assert {4 * x for x in words} == {*blocks(method, *shape, by, masked).values()}


def test_exchanges_of_a_solve(monkeypatch):
    """Uniform costs: a few reductions and the cores once, however long the sides are."""
    sizes = []
    gather = Partition.gather

    def counted(self, x):
        jax.debug.callback(
            lambda device: sizes.append(4 * x.size) if device == 0 else None, self.shard_index()
        )
        return gather(self, x)

    monkeypatch.setattr(Partition, "gather", counted)
    for n in (96, 384):
        sizes.clear()
        cost = np.random.default_rng(n).random((n, n), np.float32)
        res = sharded(cost, "row_axis", DEVICES, method="core")
        jax.block_until_ready(res)
        jax.effects_barrier()
        assert res.status == jm.Status.OPTIMAL
        expected = blocks("core", n, n, "row_axis")
        assert sizes.count(expected["cores"]) == 1 and sizes.count(expected["lists"]) == 0
        assert 1 <= sizes.count(expected["reduction"]) <= 10


def test_a_batch_stays_where_it_is():
    def loss(cost):
        return jm.solve_assignment(cost).cost.sum()

    mesh = mesh_of(DEVICES)
    sharding = jax.sharding.NamedSharding(mesh, PartitionSpec("x"))
    cost = jax.device_put(np.zeros((8, 10, 12), np.float32), sharding)
    text = jax.jit(jax.value_and_grad(loss)).lower(cost).compile().as_text()
    found = re.findall(r"= (\S+) (all-[a-z-]+|collective-permute|reduce-scatter)\(", text)
    assert [name for _, name in found] == ["all-reduce"] and found[0][0].startswith("f32[]")
