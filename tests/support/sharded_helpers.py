"""Shared by the tests of sharded costs: methods, meshes, and the placement of costs."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jaxmatch as jm


METHODS = ["core", "classical", "tree"]
SIDES = ["row_axis", "col_axis"]

each_method = pytest.mark.parametrize("method", METHODS)
by_each_side = pytest.mark.parametrize("by", SIDES)
some_of_both = pytest.mark.parametrize("method, by", [
    ("core", "row_axis"), ("core", "col_axis"), ("classical", "row_axis"), ("tree", "col_axis"),
])  # fmt: skip


def mesh_of(devices, axis_type=AxisType.Auto):
    return Mesh(np.array(jax.devices("cpu")[:devices]), ("x",), axis_types=(axis_type,))


def spec_of(by):
    return PartitionSpec("x", None) if by == "row_axis" else PartitionSpec(None, "x")


def place(cost, by, mesh):
    return jax.device_put(cost, NamedSharding(mesh, spec_of(by)))


def sharded(cost, by, devices, **how):
    return jm.solve_assignment(place(cost, by, mesh_of(devices)), **{by: "x"}, **how)
