"""Solves under noise by one native call, against noise, solver and sums one after another."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_helpers import numpy_noise, threefry13

import jaxmatch as jm
from jaxmatch._library import libraries
from jaxmatch.estimators import Perturbed, _native, _samples, assignment_oracle
from jaxmatch.estimators._noise import NOISES, noise_of, noise_streams


pytestmark = pytest.mark.usefixtures("platform", "optimised")


KEY = jax.random.key(11)
each_noise = pytest.mark.parametrize("noise", NOISES)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def slopes(rule, cost, d, **others):
    """Mean, and derivatives both ways."""
    f = partial(jm.assignment_matrix, estimator=rule, key=KEY, **others)
    y, back = jax.vjp(f, cost)
    return y, back(d)[0], jax.jvp(f, (cost,), (d,))[1]


def composed(monkeypatch, f, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(_native, "fits_perturbed", lambda cost: False)
        return jax.jit(f)(*arguments)


@each_noise
def test_noise(noise):
    """By NumPy in float64, from the bits that the paper's authors publish too."""
    streams = noise_streams(KEY, (3, 2), 35)
    made = noise_of(streams, 4, 35, noise)
    assert made.shape == (3, 2, 4, 35) and made.dtype == jnp.float32
    for s in range(4):
        truth = numpy_noise(KEY, s, (3, 2, 35), noise, 1)
        np.testing.assert_allclose(made[:, :, s], truth, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "key, counter, words",
    [
        ((0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0xFD36D048, 0x2D17272C)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xBA3E4725, 0xF27D669E)),
    ],
)
def test_bits(key, counter, words):
    """Known answers of Salmon et al. for 13 rounds."""
    assert tuple(int(word) for word in threefry13(key, *counter)) == words


@each_noise
def test_extremes_of_noise(noise, platform):
    """The 2^23 numbers that there are, in the tails as good as elsewhere."""
    if platform != "cpu":
        pytest.skip("a target of the CPU")
    streams = noise_streams(KEY, (), 2**20)
    made = np.sort(np.asarray(noise_of(streams, 8, 2**20, noise), np.float64).ravel())
    truth = np.sort(np.concatenate([numpy_noise(KEY, s, (2**20,), noise, 1) for s in range(8)]))
    np.testing.assert_allclose(made, truth, rtol=1e-6, atol=1e-6)


ISA_CODE = """
import jax, numpy as np, jaxmatch as jm
from jaxmatch.estimators import Perturbed
from jaxmatch.estimators._noise import noise_of, noise_streams

def bits():
    key = jax.random.key(11)
    made = [np.ravel(noise_of(noise_streams(key, (3,), 1001), 5, 1001, x))
            for x in ("normal", "gumbel")]
    cost, d = np.random.default_rng(0).normal(size=(2, 3, 13, 17)).astype(np.float32)
    for symmetric in (False, True):
        rule = Perturbed(0.5, 20, symmetric=symmetric)
        f = lambda c: (jm.assignment_matrix(c, estimator=rule, key=key) * d).sum()
        made.append(np.ravel(jax.jit(jax.grad(f))(cost)))
    return np.concatenate(made)
"""


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_instruction_sets_give_the_same_bits(isa, tmp_path, platform):
    if platform != "cpu":
        pytest.skip("targets of the CPU")
    at = tmp_path / "bits.npy"
    environment = os.environ | {"JAXMATCH_ISA": isa, "JAX_PLATFORMS": "cpu"}
    code = ISA_CODE + "import sys\nnp.save(sys.argv[1], bits())"
    subprocess.run([sys.executable, "-c", code, at], check=True, env=environment)
    here: dict = {}
    exec(ISA_CODE, here)
    np.testing.assert_array_equal(np.load(at), here["bits"]())


@each_noise
@pytest.mark.parametrize(
    "shape", [(1, 1), (5, 3), (3, 5), (2, 7, 7), (2, 3, 12, 20), (40, 33), (2, 70, 66), (130, 140)]
)
def test_fused_against_composed(monkeypatch, shape, noise):
    """Solutions differ only where rounding of the noise decides between two that are as good."""
    rule = Perturbed(0.5, 9, noise)
    cost, d = normal(0, *shape), normal(1, *shape)
    got = jax.jit(partial(slopes, rule))(cost, d)
    other = composed(monkeypatch, partial(slopes, rule), cost, d)
    same = (np.asarray(got[0]) == other[0]).all((-1, -2))
    assert same.mean() > 0.7  # a tie within 1e-5 is rare even in the largest
    for a, b in zip(got, other, strict=True):
        scale = np.abs(b).max()
        np.testing.assert_allclose(np.asarray(a)[same], np.asarray(b)[same], rtol=1e-3,
                                   atol=1e-4 * scale)  # fmt: skip
    value = jax.jit(lambda c: rule.value(assignment_oracle(), c, key=KEY))
    expected = composed(monkeypatch, lambda c: rule.value(assignment_oracle(), c, key=KEY), cost)
    np.testing.assert_allclose(value(cost), expected, rtol=1e-5, atol=1e-5)


@each_noise
@pytest.mark.parametrize("masks", ["rows", "cols", "both"])
@pytest.mark.parametrize("may_leave", [False, True])
def test_masks_and_unmatched_costs(monkeypatch, masks, may_leave, noise):
    rng = np.random.default_rng(2)
    shape = (3, 9, 11)
    given = {}
    if masks != "cols":
        given["row_mask"] = rng.random(shape[:-1]) < 0.7
    if masks != "rows":
        given["col_mask"] = rng.random((shape[0], shape[2])) < 0.8
    if may_leave:
        given["unmatched_cost"] = normal(3, *shape[:-1]) - 1
    cost, d = normal(4, *shape), normal(5, *shape)
    cost[1, 2, 3] = np.inf
    rule = Perturbed(0.5, 16, noise)
    f = partial(slopes, rule, **given)
    got, other = jax.jit(f)(cost, d), composed(monkeypatch, f, cost, d)
    for a, b in zip(got, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert np.abs(got[1]).max() > 0


def test_failures_are_left_out():
    cost, d = normal(6, 5, 4, 4), normal(7, 5, 4, 4)
    bad = cost.copy()
    bad[1, 0, 0], bad[3, 2] = np.nan, np.inf
    rule = Perturbed(0.5, 8)
    y, back, ahead = slopes(rule, bad, d)
    whole = slopes(rule, cost, d)
    for got, expected in zip((y, back, ahead), whole, strict=True):
        assert (np.asarray(got)[[1, 3]] == 0).all()
        np.testing.assert_array_equal(np.asarray(got)[[0, 2, 4]], expected[np.array([0, 2, 4])])


@pytest.mark.parametrize("shape", [(6, 5), (3, 6, 5), (70, 4, 4)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_many_samples(monkeypatch, shape, symmetric):
    """Whose derivatives are summed in parts."""
    rule = Perturbed(0.5, 203, symmetric=symmetric)
    cost, d = normal(8, *shape), normal(9, *shape)
    got = jax.jit(partial(slopes, rule))(cost, d)
    whole = composed(monkeypatch, partial(slopes, rule), cost, d)
    monkeypatch.setattr(_samples, "_MOST_NOISE", 30 * cost.size)
    parts = composed(monkeypatch, partial(slopes, rule), cost, d)
    for a, b, c in zip(got, whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(b, c, rtol=1e-4, atol=1e-5)


def test_starts_from_the_first_samples(monkeypatch):
    """From the mean of their duals: also where there are none, and without noise."""
    cost, d = normal(14, 4, 7, 7), normal(15, 4, 7, 7)
    cost[1, 2] = np.inf
    cost[2] = np.round(3 * cost[2])
    rule = Perturbed(jnp.array([1.0, 1.0, 1e-3, 0.05]), 40)
    got = jax.jit(partial(slopes, rule))(cost, d)
    expected = composed(monkeypatch, partial(slopes, rule), cost, d)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a[1], 0)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("symmetric", [False, True])
def test_forward_and_reverse_mode_are_one_map(symmetric):
    """No solution depends on what is forbidden."""
    rule, cost = Perturbed(0.5, 8, symmetric=symmetric), normal(8, 3, 4).copy()
    cost[1, 2] = np.inf
    f = partial(jm.assignment_matrix, estimator=rule, key=KEY)
    forward, backward = (j(f)(cost).reshape(12, 12) for j in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, backward, rtol=1e-5, atol=1e-6)
    assert np.allclose(forward, forward.T, rtol=1e-5, atol=1e-6) == symmetric
    np.testing.assert_array_equal(forward[6], 0)
    np.testing.assert_array_equal(forward[:, 6], 0)
    assert np.abs(forward).max() > 0.1


def test_batches_larger_than_the_workspace(monkeypatch):
    """On CUDA samples are solved in parts; the last one is smaller."""
    rule, cost, d = Perturbed(0.5, 40), normal(10, 30, 20, 20), normal(11, 30, 20, 20)
    whole = slopes(rule, cost, d)
    monkeypatch.setattr(_native, "_MOST_BYTES", 1 << 18)
    parts = jax.jit(partial(slopes, rule))(cost, d)
    np.testing.assert_array_equal(parts[0], whole[0])
    for got, expected in zip(parts[1:], whole[1:], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_vmap_is_one_larger_call():
    rule, cost, d = Perturbed(0.5, 8), normal(12, 4, 2, 5, 5), normal(13, 4, 2, 5, 5)
    together = jax.jit(jax.vmap(partial(slopes, rule)))
    for got, expected in zip(
        together(cost, d),
        zip(*(slopes(rule, c, e) for c, e in zip(cost, d, strict=True)), strict=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, np.stack(expected), rtol=1e-5, atol=1e-6)
    text = together.lower(cost, d).as_text()
    assert "jaxmatch_perturbed_assignment" in text and "4x2x8x5xi32" in text


def test_derivatives_lower_for_cuda(monkeypatch, platform):
    if platform != "cpu":
        pytest.skip("needs no GPU")
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    rule, like = Perturbed(0.5, 7), jax.ShapeDtypeStruct((3, 5, 6), jnp.float32)
    program = jax.jit(partial(slopes, rule)).trace(like, like).lower(lowering_platforms=("cuda",))
    text = program.as_text()
    assert "@jaxmatch_perturbed_assignment(" in text and "@jaxmatch_perturbed_jvp(" in text
    assert text.count("custom_call @jaxmatch_") == text.count("custom_call @jaxmatch_perturbed_")


def test_memory_does_not_grow_with_noise(platform):
    """4.2 GB of noise, if it were held."""
    batch, n = 64, 128
    rule = Perturbed(1.0, 1000)

    def loss(cost, d):
        return (jm.assignment_matrix(cost, estimator=rule, key=KEY) * d).sum()

    like = jax.ShapeDtypeStruct((batch, n, n), jnp.float32)
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        compiled = jax.jit(jax.value_and_grad(loss)).lower(like, like).compile()
    used = compiled.memory_analysis().temp_size_in_bytes
    assert used < 600e6
