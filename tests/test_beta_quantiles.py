"""Quantiles of beta distributions: against mpmath, SciPy and closed forms; by Python with the bits of the kernel."""

import mpmath
import numpy as np
import pytest
from scipy import special

from aucpr_dask.kernels import beta_logit, dispatch
from aucpr_dask.kernels.beta import beta_quantiles

SHARES = (0.0005, 0.005, 0.025, 0.05, 0.2, 0.8, 0.95, 0.975, 0.995)


def shapes(n: int, seed: int, largest: float = beta_logit.LARGEST_SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Shapes of many sizes, as `influence_beta` has them: at least a third, and at least two thirds."""
    a, b = np.exp(np.random.default_rng(seed).uniform(np.log([[1 / 3], [2 / 3]]), np.log(largest / 2), (2, n)))
    a[: n // 8], b[n // 8 : n // 4] = 1 / 3, 2 / 3
    return a, b


@pytest.mark.parametrize("share", SHARES)
def test_they_are_right_to_thirteen_digits(share: float) -> None:
    a, b = shapes(40, 1)
    a, b = (a, b) if share < 0.5 else (b, a)
    for first, second, found in zip(a, b, beta_quantiles(a, b, share), strict=True):
        with mpmath.workdps(30):
            x, error = (
                mpmath.mpf(float(found)),
                mpmath.betainc(first, second, 0, float(found), regularized=True) - share,
            )
            density = x**first * (1 - x) ** (second - 1) / mpmath.beta(first, second)  # of the logarithm of x
            assert abs(error / density) < 1e-13, (first, second)


@pytest.mark.parametrize("share", [*SHARES, 1e-9, 0.5, 1 - 1e-9])
def test_they_are_those_of_scipy(share: float) -> None:
    a, b = shapes(4_000, 2, 1e9)
    a, b = (a, b) if share < 0.5 else (b, a)
    np.testing.assert_allclose(beta_quantiles(a, b, share), special.betaincinv(a, b, share), rtol=2e-13)


@pytest.mark.parametrize("share", SHARES)
def test_they_are_powers_where_a_shape_is_one(share: float) -> None:
    n = np.geomspace(1 / 3, 400, 50)
    np.testing.assert_allclose(beta_quantiles(n, np.ones(50), share), share ** (1 / n), rtol=1e-13)
    np.testing.assert_allclose(beta_quantiles(np.ones(50), n, share), -np.expm1(np.log1p(-share) / n), rtol=1e-13)


@pytest.mark.parametrize("share", SHARES)
def test_python_has_the_bits_of_the_kernel(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = shapes(500, 3, 2 * beta_logit.LARGEST_SIZE)
    compiled = beta_quantiles(a, b, share)
    monkeypatch.setattr(dispatch, "MOST_BY_NUMPY", 1 << 62)
    monkeypatch.setattr(dispatch, "needs_no_compiling", lambda name: False)
    monkeypatch.setattr("aucpr_dask.kernels.quantiles.fill_beta_logits", None)
    np.testing.assert_array_equal(beta_quantiles(a, b, share), compiled)


@pytest.mark.parametrize("share", [0.025, 0.975])
def test_most_need_no_scipy(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special, "betaincinv", None)
    a, b = shapes(5_000, 4)
    assert np.isfinite(beta_quantiles(a, b, share) if share < 0.5 else beta_quantiles(b, a, share)).all()


def test_shapes_broadcast_and_may_be_unknown() -> None:
    a, b = np.array([[1.0], [np.nan]]), np.array([2.0, 3.0, 4.0])
    found = beta_quantiles(a, b, 0.025)
    np.testing.assert_array_equal(np.isnan(found), [[False] * 3, [True] * 3])
    assert beta_quantiles(np.float64(2), np.float64(3), 0.025).shape == ()
    assert beta_quantiles(np.empty((0, 2)), np.empty((0, 2)), 0.025).shape == (0, 2)
