"""The logit of a quantile of a beta distribution, in lines that run as they are and compiled."""

from __future__ import annotations

import math

LEAST_SHAPE, LARGEST_SIZE, LEAST_TAIL, LARGEST_TAIL = 0.3, 500.0, 1e-4, 0.2  # beyond these, SciPy is used
SHIFT = 8  # of both shapes: from there on, seven terms of Stirling's series are enough
STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
CLOSE = 1e-8  # square of a step, in standard deviations: the error is its square, beyond the last bit
MOST_STEPS, MOST_FRACTIONS = 4, 300


def beta_logit(a: float, b: float, tail: float, z: float) -> float:
    """Return the logit of a lower quantile of a beta distribution, z that of a normal one; NaN if SciPy is to do it.

    From two terms of Cornish and Fisher's series for the logit, which is the difference of the logarithms of two gamma
    variates, steps that leave an error of the fourth order. The kernel has the same bits, for it runs the same lines.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.17.22 (continued fraction), https://dlmf.nist.gov/8.17.v

    Cornish & Fisher (1938), Moments and cumulants in the specification of distributions,
    https://doi.org/10.2307/1400905
    """
    size = a + b
    if not (min(a, b) >= LEAST_SHAPE and size <= LARGEST_SIZE and LEAST_TAIL <= tail <= LARGEST_TAIL):
        return math.nan
    mean, variance, third = math.log((a + 0.5) / (b + 0.5)), 0.0, 0.0
    for sign, r, t in ((1.0, 1.0 / a, 1.0 / (a + 0.5)), (-1.0, 1.0 / b, 1.0 / (b + 0.5))):
        mean += sign * (t * t / 24.0 - r)
        variance += t * (1.0 - t * t / 12.0) + r * r
        third -= sign * (t * t * (1.0 - t * t / 4.0) + 2.0 * r * r * r)
    logit = mean + math.sqrt(variance) * z + third / variance * (z * z - 1.0) / 6.0

    # The density is scaled to its value at the mean, so that logarithms do not cancel.
    scale, c, d, e = 1.0, a, b, size
    for _ in range(SHIFT):
        scale *= c * d / (e * (e + 1.0))
        c, d, e = c + 1.0, d + 1.0, e + 2.0
    mean_a, mean_b = math.log1p(d / c), math.log1p(c / d)
    rest = (SHIFT - 0.5) * (mean_a + mean_b) + 0.5 * math.log(e) - HALF_LOG_TAU
    for sign, r in ((-1.0, 1.0 / c), (-1.0, 1.0 / d), (1.0, 1.0 / e)):
        series = 0.0
        for term in STIRLING:
            series = term + r * r * series
        rest += sign * r * series

    for _ in range(MOST_STEPS):
        small = math.exp(-abs(logit))
        half = math.log1p(small)
        x, y = small / (1.0 + small), 1.0 / (1.0 + small)
        x, y = (x, y) if logit < 0.0 else (y, x)
        log_x, log_y = min(logit, 0.0) - half, -max(logit, 0.0) - half
        density = scale * math.exp(a * (log_x + mean_a) + b * (log_y + mean_b) + rest)  # of the logit
        if not density > 0.0:
            return math.nan
        over, under, last_over, last_under = 1.0, 1.0, 0.0, 1.0
        m, fraction, last = 0.0, 1.0, 0.0
        while abs(fraction - last) > 1e-15 * fraction and m < MOST_FRACTIONS:
            odd = -(a + m) * (size + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
            m += 1.0
            even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
            last_over, last_under = over + odd * last_over, under + odd * last_under
            over, under = last_over + even * over, last_under + even * under
            fraction, last = over / under, fraction
        step = tail / density - fraction / a
        slope, bend = a * y - b * x, -size * x * y  # derivatives of the density's logarithm
        logit += step * (1.0 - step * (slope / 2.0 - step * (2.0 * slope * slope - bend) / 6.0))
        if step * step * (slope * slope - bend) < CLOSE and m < MOST_FRACTIONS:
            return logit
    return math.nan
