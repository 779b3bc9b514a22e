// Paired comparison of two models, with exactly the numbers of aucpr_dask.compare for one pair.
"use strict";
const statistics = (() => {
  const ROUND_OFF = 1e-12;
  const TINY = 2.2250738585072014e-308;

  // The replicates of a model around their mean, and the size of round-off in them; `flipped` are the values whose
  // signs were flipped, from which the spread of a difference is known.
  function centre(estimate, replicates, isNull, flipped = null) {
    let magnitude = Math.abs(estimate), total = 0;
    for (const value of replicates) {
      magnitude = Math.max(magnitude, Math.abs(value));
      total += value;
    }
    const mean = total / replicates.length;
    return {
      estimate,
      centred: replicates.map((value) => value - mean),
      flipped,
      bias: isNull ? mean : mean - estimate,
      resolution: Math.max(ROUND_OFF * magnitude, TINY),
    };
  }

  // Difference, error, p-value and the quantile of the statistic's size, of two centred models.
  function pair(one, other, { complete, place }) {
    const n = one.centred.length, extra = complete ? 0 : 1;
    const resolution = one.resolution + other.resolution;
    const sizes = one.centred.map((value, r) => value - other.centred[r]);
    const [ours, theirs] = one.flipped ? [one.flipped, other.flipped] : [one.centred, other.centred];
    let squares = 0;
    for (let i = 0; i < ours.length; i++) squares += (ours[i] - theirs[i]) ** 2;
    let error = Math.sqrt(squares / (one.flipped ? ours.length ** 2 : n - extra));
    if (error <= resolution) error = 0;
    const scale = Math.max(error, resolution), bias = one.bias - other.bias;
    for (let r = 0; r < n; r++) sizes[r] = Math.abs(sizes[r] + bias) / scale;
    let difference = one.estimate - other.estimate;
    if (error === 0 && Math.abs(difference) <= resolution) difference = 0;
    const reach = Math.max(Math.abs(difference) - resolution, 0) / scale;
    let count = 0;
    for (const size of sizes) if (size >= reach) count += 1;
    return { difference, error, p: (count + extra) / (n + extra), quantile: sizes.sort()[place] };
  }

  function mean(values) {
    let total = 0;
    for (const value of values) total += value;
    return total / values.length;
  }

  // Means of one model's units under each choice of signs; bit u of choice r is 1 where unit u keeps its sign.
  function flippedMeans(values, { n_resamples, complete }, bits) {
    const width = Math.ceil(values.length / 8);
    const means = new Float64Array(n_resamples);
    for (let r = 0; r < n_resamples; r++) {
      let total = 0;
      for (let unit = 0; unit < values.length; unit++) {
        const keeps = complete ? !((r >> unit) & 1) : (bits[r * width + (unit >> 3)] >> (unit & 7)) & 1;
        total += keeps ? values[unit] : -values[unit];
      }
      means[r] = total / values.length;
    }
    return means;
  }

  function errorOfUnits(first, second) {
    const n = first.length;
    const differences = first.map((value, unit) => value - second[unit]);
    const centre = mean(differences);
    let squares = 0;
    for (const value of differences) squares += (value - centre) ** 2;
    const spread = Math.sqrt(squares / (n - 1));
    const largest = (values) => values.reduce((size, value) => Math.max(size, Math.abs(value)), 0);
    return spread <= ROUND_OFF * (largest(first) + largest(second)) ? 0 : spread / Math.sqrt(n);
  }

  function bySignFlips(first, second, plan, bits) {
    const parts = [first, second].map((values) => {
      const estimate = mean(values), rest = values.map((value) => value - estimate);
      return {
        test: centre(estimate, flippedMeans(values, plan, bits), true, values),
        spread: centre(estimate, flippedMeans(rest, plan, bits), true, rest),
      };
    });
    const test = pair(parts[0].test, parts[1].test, plan);
    const spread = pair(parts[0].spread, parts[1].spread, plan);
    const error = errorOfUnits(first, second), n = first.length, room = n - spread.quantile ** 2;
    const possible = plan.possible && room > 0;
    const quantile = possible ? spread.quantile * Math.sqrt((n - 1) / room) : Infinity;
    return answer(test.difference, error, test.p, quantile);
  }

  function byReplicates(estimates, replicates, plan) {
    const [one, other] = [0, 1].map((i) => centre(estimates[i], replicates[i], false));
    const test = pair(one, other, plan);
    return answer(test.difference, test.error, test.p, test.quantile);
  }

  function answer(difference, error, p, quantile) {
    const nothingShown = quantile === Infinity && difference !== 0;
    const reach = nothingShown ? Infinity : error === 0 ? 0 : quantile * error;
    return { difference, error, p, lower: difference - reach, upper: difference + reach };
  }

  return { bySignFlips, byReplicates };
})();
