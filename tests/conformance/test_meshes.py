"""Batches over several devices: each device solves its own problems, and results stay there."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from subjects import METHODS, SUBJECTS


WAYS = ("explicit", "automatic", "shard_map")
# Batches of clouds of points are a scan, which `shard_map` alone divides among devices.
SCANS = [name for name, row in SUBJECTS.items() if row.alone]
TWINS = [name for name, method in METHODS if method == "xla"]
# A twin takes seconds to compile: each has the next of these ways.
CASES = [(name, "auto", way) for name in SUBJECTS for way in WAYS
         if way == "shard_map" or name not in SCANS]  # fmt: skip
CASES += [(name, "xla", "shard_map" if name in SCANS else WAYS[k % 3])
          for k, name in enumerate(TWINS)]  # fmt: skip
COLLECTIVES = r"(?:all-gather|all-to-all|collective-permute|reduce-scatter)[a-z-]*\("


@pytest.fixture
def devices(platform):
    found = jax.devices(platform)
    if len(found) < 2:
        pytest.skip("needs two devices")
    return found[: 4 if len(found) >= 4 else 2]


@pytest.mark.parametrize("name, method, way", CASES)
def test_meshes(name, method, way, devices, platform):
    """Solutions and, on explicit meshes, their checks and derivatives; those of twins mapped."""
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    solve = row.mapped(row.one(method)) if method == "xla" else row.call(method)
    kind = AxisType.Explicit if way == "explicit" else AxisType.Auto
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(kind,), devices=devices)
    everywhere, batch = PartitionSpec(), PartitionSpec("batch")
    specs = [everywhere if k < row.shared else batch for k in range(len(given))]
    over = NamedSharding(mesh, batch)
    if way == "shard_map":
        part = jax.shard_map(solve, mesh=mesh, in_specs=tuple(specs), out_specs=over.spec)
        return assert_right(row, method, platform, given, jax.jit(part)(*given))
    with jax.set_mesh(mesh):
        places = [NamedSharding(mesh, spec) for spec in specs]
        placed = [jax.device_put(x, place) for x, place in zip(given, places, strict=True)]
        program = jax.jit(solve).lower(*placed).compile()
        found = program(*placed)
        check = jax.jit(row.checked())(*placed, found) if way == "explicit" else None
        slopes = slopes_of(row)(*placed) if way == "explicit" and method == "auto" else None
    assert re.findall(COLLECTIVES, program.as_text()) == []
    for x in jax.tree.leaves((found, check, slopes)):
        assert x.sharding.is_equivalent_to(over, x.ndim)
    assert_right(row, method, platform, given, found)
    if way == "explicit":
        assert check.valid.all() and check.optimal.all()
        near = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6)
        jax.tree.map(near, slopes, slopes and slopes_of(row)(*given))


def slopes_of(row):
    """Derivatives of the values of a batch, of those that have them."""
    if not row.numbers or not row.smooth:
        return lambda *_: None
    return jax.jit(jax.grad(lambda *x: getattr(row.solve(*x), row.value).sum(), row.numbers))


def assert_right(row, method, platform, given, found):
    """The same bits. Threads race on GPUs, and twins are compiled but once: then by the value."""
    if method == "auto" and platform == "cpu":
        return assert_same_bits(found, jax.jit(row.call())(*given))
    assert (np.asarray(found.status) == 0).all()
    value = np.asarray(getattr(found, row.value)).astype(float)
    np.testing.assert_array_equal(value, row.truths(given))
