"""The exact Jacobian that gradients are held against, and the measures made with it."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from estimator_helpers import matrices

from jaxmatch.estimators import Identity, Perturbed


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.learning.exact_jacobian import LAWS, LOSSES, exact_jacobian, make_problems  # noqa: E402
from benchmarks.learning.quality import Entry, estimate, measures  # noqa: E402


each_noise = pytest.mark.parametrize("noise", LAWS)


def mean_and_error(parts):
    return parts.mean(0), parts.std(0, ddof=1) / math.sqrt(len(parts))


@pytest.mark.parametrize("sigma", [0.25, 1.0, 3.0])
def test_two_rows_against_the_closed_form(sigma):
    """The totals of the two solutions differ by a normal number of variance 4 sigma^2."""
    cost = np.random.default_rng(0).normal(size=(2, 2))
    got, error = mean_and_error(exact_jacobian(cost, sigma, "normal", 200_000, 0, parts=20))
    sign = np.array([1, -1, -1, 1])
    z = (sign * cost.ravel()).sum() / (2 * sigma)
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    expected = -density / (2 * sigma) * np.outer(sign, sign)
    assert error.max() < 0.01 * np.abs(expected).max()
    np.testing.assert_array_less(np.abs(got - expected), 5 * error)


@each_noise
def test_three_rows_against_finite_differences(noise):
    """Of mean solutions, by other noise, which is the same on both sides of a difference."""
    n, sigma, h, draws = 3, 0.7, 0.1, 400_000
    cost = np.random.default_rng(1).normal(size=(n, n))
    points = matrices(n, n).reshape(-1, n * n)
    rng = np.random.default_rng(2)
    z = rng.normal(size=(n * n, draws)) if noise == "normal" else -rng.gumbel(size=(n * n, draws))
    totals = points @ (cost.reshape(-1, 1) + sigma * z)

    def how_often(totals):
        return np.bincount(totals.argmin(0), minlength=len(points)) / draws

    found = []
    for uses in points.T:
        ahead, behind = (totals + s * h * uses[:, None] for s in (1, -1))
        found.append((how_often(ahead) - how_often(behind)) @ points / (2 * h))
    expected = np.array(found)
    got, error = mean_and_error(exact_jacobian(cost, sigma, noise, 100_000, 3))
    assert error.max() < 0.003
    # A difference's own error: a solution changes in a share |J| 2h of the draws, by 1 / 2h.
    noise_of_difference = np.sqrt(np.abs(expected).max() / (2 * h * draws))
    np.testing.assert_allclose(got, expected, atol=5 * noise_of_difference + 0.01 * h)


@each_noise
def test_jacobian_is_symmetric_and_keeps_sums(noise):
    """It is the second derivative of a concave function; rows and columns always sum to one."""
    n = 4
    cost = np.random.default_rng(4).normal(size=(n, n))
    parts = exact_jacobian(cost, 0.5, noise, 40_000, 5, parts=40)
    skew, error = mean_and_error(parts - parts.swapaxes(1, 2))
    assert (np.abs(skew) <= 6 * error + 1e-12).all()
    assert np.linalg.eigvalsh(parts.mean(0) + parts.mean(0).T).max() < 10 * error.max()
    sums = parts.mean(0).reshape(n * n, n, n)
    np.testing.assert_allclose(sums.sum(1), 0, atol=1e-9)
    np.testing.assert_allclose(sums.sum(2), 0, atol=1e-9)


@pytest.fixture(scope="module")
def problems():
    return make_problems(3, 4, 2, 16_000, (0.5,))


@each_noise
def test_many_samples_come_near_the_truth(problems, noise):
    entry = Entry("", lambda sigma, ratio: Perturbed(sigma, 4000, noise), noise)
    found, _ = estimate(entry, 0.5, problems, 8)
    for k, _ in enumerate(LOSSES):
        got = measures(found[:, k], problems.gradient[noise, 0.5][:, k])
        assert got["cosine"] > 0.98
        assert got["cosine_of_mean"] > 0.99
        assert abs(got["scale"] - 1) < 0.1
        assert got["bias"] < max(got["bias_seen_from"], 0.1)
        assert got["variance"] < 0.06


def test_measures_tell_bias_from_noise(problems):
    """Exact gradients with known errors: a factor, and noise of known variance."""
    exact = problems.gradient["normal", 0.5][:, 0]
    truth = exact.mean(0)
    rng = np.random.default_rng(6)
    length = math.sqrt((truth**2).sum())
    noise = rng.normal(size=(4000, *truth.shape)) * length / math.sqrt(truth.size)
    got = measures(1.5 * (truth + noise), exact)
    np.testing.assert_allclose(got["variance"], 1.5**2, rtol=0.05)
    np.testing.assert_allclose(got["bias"], 0.5, rtol=0.1)
    np.testing.assert_allclose(got["scale"], 1 / 1.5, rtol=0.05)
    np.testing.assert_allclose(got["cosine"], math.sqrt(0.5), rtol=0.03)
    assert got["bias_rescaled"] < 0.1 and got["bias_seen_from"] < 0.1
    assert got["zero_share"] == 0
    nothing = measures(np.zeros((1, *truth.shape)), exact)
    assert nothing["cosine"] == nothing["cosine_each"] == nothing["scale"] == 0
    assert nothing["zero_share"] == 1
    np.testing.assert_allclose(nothing["bias"], 1, rtol=0.01)


def test_a_rule_without_noise(problems):
    """Minus the projected cotangent: never 0, and the same estimate each time."""
    found, _ = estimate(Entry("", lambda sigma, ratio: Identity()), 0.5, problems, 8)
    d = problems.cotangent.astype(np.float64)
    centered = d - d.mean(-1, keepdims=True) - d.mean(-2, keepdims=True) + d.mean((-1, -2))[
        ..., None, None
    ]  # fmt: skip
    np.testing.assert_allclose(found, -centered[None], atol=1e-5)
