"""All suites, in the order in which they run."""

# Modules, not classes: asv would take an imported class for a second suite.
from benchmarks.harness.contenders import Suite as _Suite
from benchmarks.suites import (
    areas,
    bootstrap,
    cold_start,
    comparing,
    intervals,
    items_in_chunks,
    per_query,
    runs,
    single_ranking,
)

SUITES: tuple[type[_Suite], ...] = (
    single_ranking.SingleRanking,
    single_ranking.Weighted,
    areas.BinnedAveragePrecision,
    areas.BinnedInterpolation,
    areas.InterpolatedArea,
    areas.Trapezoid,
    per_query.PerQuery,
    bootstrap.Bootstrap,
    intervals.FormulaIntervals,
    intervals.Intervals,
    intervals.Influence,
    comparing.Tests,
    comparing.SignFlips,
    comparing.OverItems,
    items_in_chunks.ItemsInChunks,
    items_in_chunks.Accumulating,
    runs.StoreToStore,
    runs.Workers,
    runs.WorkersOfReplicates,
    runs.Models,
    cold_start.ColdStart,
    cold_start.FirstTable,
)
