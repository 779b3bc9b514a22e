// Paired comparison of two models, with exactly the numbers of aucpr_dask.compare for one pair.
"use strict";
const statistics = (() => {
  const ROUND_OFF = 1e-12;
  const TINY = 2.2250738585072014e-308;

  // The replicates of a model around their mean, and the size of round-off in them.
  function centre(estimate, replicates) {
    let magnitude = Math.abs(estimate), total = 0;
    for (const value of replicates) {
      magnitude = Math.max(magnitude, Math.abs(value));
      total += value;
    }
    const mean = total / replicates.length;
    return {
      estimate,
      centred: replicates.map((value) => value - mean),
      bias: mean - estimate,
      resolution: Math.max(ROUND_OFF * magnitude, TINY),
    };
  }

  // Difference, error, p-value and the quantile of the statistic's size, of two centred models.
  function pair(one, other, { place }) {
    const n = one.centred.length;
    const resolution = one.resolution + other.resolution;
    const sizes = one.centred.map((value, r) => value - other.centred[r]);
    let squares = 0;
    for (const size of sizes) squares += size ** 2;
    let error = Math.sqrt(squares / (n - 1));
    if (error <= resolution) error = 0;
    const scale = Math.max(error, resolution), bias = one.bias - other.bias;
    for (let r = 0; r < n; r++) sizes[r] = Math.abs(sizes[r] + bias) / scale;
    let difference = one.estimate - other.estimate;
    if (error === 0 && Math.abs(difference) <= resolution) difference = 0;
    const reach = Math.max(Math.abs(difference) - resolution, 0) / scale;
    let count = 0;
    for (const size of sizes) if (size >= reach) count += 1;
    return { difference, error, p: (count + 1) / (n + 1), quantile: sizes.sort()[place] };
  }

  function byReplicates(estimates, replicates, plan) {
    const [one, other] = [0, 1].map((i) => centre(estimates[i], replicates[i]));
    const { difference, error, p, quantile } = pair(one, other, plan);
    const reach = error === 0 ? 0 : quantile * error;
    return { difference, error, p, lower: difference - reach, upper: difference + reach };
  }

  return { byReplicates };
})();
