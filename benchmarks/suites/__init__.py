"""All suites, in the order in which they run."""

from benchmarks.suite import Suite
from benchmarks.suites import (
    bootstrap,
    cold_start,
    groups,
    influence,
    items_in_chunks,
    per_query,
    run_files,
    runs,
    single_ranking,
)

SUITES: tuple[type[Suite], ...] = (
    single_ranking.SingleRanking,
    single_ranking.Weighted,
    per_query.PerQuery,
    run_files.RunFiles,
    run_files.Tables,
    bootstrap.Bootstrap,
    influence.Influence,
    groups.Groups,
    items_in_chunks.ItemsInChunks,
    runs.StoreToStore,
    runs.Workers,
    runs.Models,
    cold_start.ColdStart,
    cold_start.FirstTable,
)
