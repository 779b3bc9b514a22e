"""All suites, in the order in which they run."""

# Modules, not classes: asv would take an imported class for a second suite.
from benchmarks import (
    bootstrap,
    cold_start,
    estimators,
    influence,
    items_in_chunks,
    per_query,
    planning,
    scaling,
    scheduler,
    single_ranking,
    store_to_store,
    weighted,
)
from benchmarks.contenders import Suite as _Suite

SUITES: tuple[type[_Suite], ...] = (
    single_ranking.SingleRanking,
    weighted.Weighted,
    estimators.Estimators,
    per_query.PerQuery,
    bootstrap.Bootstrap,
    influence.Influence,
    items_in_chunks.ItemsInChunks,
    store_to_store.StoreToStore,
    scaling.Workers,
    scaling.Models,
    scaling.Items,
    planning.Planning,
    scheduler.SchedulerLoad,
    cold_start.ColdStart,
)
