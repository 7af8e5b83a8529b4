"""Calls outside of `jit`: arrays of any layout, what is compiled, calls again and again."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from subjects import SUBJECTS, dense, plans

import jaxmatch as jm
from jaxmatch._common import place
from jaxmatch._ffi import repeated


PROGRAMS = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compilations():
    """The number of programs compiled so far, or taken from the cache of programs."""
    events = []
    listener = lambda name, _, **__: events.append(name) if name == PROGRAMS else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    yield lambda: len(events)
    jax.monitoring.unregister_event_duration_listener(listener)


# ---------------------------------------------------------------------------------------------
# Layouts


def strided(x):
    wide = np.zeros([2 * k for k in x.shape], x.dtype)[(slice(None, None, 2),) * x.ndim]
    wide[...] = x
    return wide


def unaligned(x):
    memory = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "strided": strided,
    "read-only": frozen,
    "unaligned": unaligned,
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_arrays_of_any_layout(name, compilations):
    row = SUBJECTS[name]
    for dtype in [x for x in row.dtypes if x in ("float64", "int64")] or row.dtypes:
        given = row.problem(row.instance(dtype), 0)
        expected = row.one()(*given)
        before = compilations()
        shared, own = given[: row.shared], given[row.shared :]
        for layout, turned in LAYOUTS.items():
            others = [turned(x) if isinstance(x, np.ndarray) else x for x in own]
            try:
                assert_same_bits(row.one()(*shared, *others), expected)
            except Exception as error:
                error.add_note(layout)
                raise
        assert compilations() == before


# ---------------------------------------------------------------------------------------------
# What is compiled


# Costs of points are a program for each shape.
HERE = [name for name in SUBJECTS if name != "points"]


@pytest.mark.cpu
@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
@pytest.mark.parametrize("name", HERE)
def test_new_shapes_compile_nothing(name, kind, compilations):
    """Neither solvers nor checks: a program for each shape takes seconds, and its memory stays."""
    row, count = SUBJECTS[name], []
    # The program that makes JAX arrays of results serves all shapes.
    wide = kind is np.asarray  # which JAX would cut
    for shape in ((6, 8), (5, 9), (7, 7), (9, 6)):
        dtype = "float64" if row.numbers and wide else "float32" if row.numbers else "int32"
        given = row.problem(row.instance(dtype, 1, shape), 0)
        given = jax.tree.map(kind, given)
        before = compilations()
        check = row.check(*given, row.one()(*given))
        count.append(compilations() - before)
        assert check.optimal
    assert count[1:] == [0, 0, 0]


# ---------------------------------------------------------------------------------------------
# Calls of one signature


OTHERS = {
    "pairs": (jm.linear_sum_assignment, dense),
    "maximize": (partial(jm.solve_assignment, maximize=True), dense),
    "partial": (partial(jm.solve_transport, partial=3), plans),
}
CALLS = {name: (row.one(), row.make) for name, row in SUBJECTS.items()} | OTHERS


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_repeated_calls_answer_as_first_ones(name, kind, monkeypatch):
    """Whatever the numbers are: each call has others, and the statuses are not all the same."""
    monkeypatch.setattr(place, "_calls", {})
    monkeypatch.setattr(place, "CALLS_BEFORE_COMPILATION", 3)
    call, make = CALLS[name]
    row = SUBJECTS.get(name, SUBJECTS["assignment"])
    given = make(np.random.default_rng(1), 9, (5, 5), "float32")
    for k, bad in ((4, np.nan), (6, np.inf)) if row.numbers else ():
        given[row.numbers[0]][k, 1] = bad
    problems = [jax.tree.map(kind, row.problem(given, k)) for k in range(9)]

    def answer(problem):
        try:
            return call(*problem)
        except ValueError as error:
            return str(error)

    got = [answer(x) for x in problems]
    monkeypatch.setattr(place, "CALLS_BEFORE_COMPILATION", 10**9)
    monkeypatch.setattr(repeated, "_signature", lambda *_: None)
    for problem, ours in zip(problems, got, strict=True):
        theirs = answer(problem)
        assert isinstance(theirs, type(ours))
        if isinstance(ours, str):
            assert ours == theirs
            continue
        for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert type(x) is type(y) and x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-6)
