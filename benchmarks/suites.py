"""All suites, in the order in which they run."""

from benchmarks.cold_start import ColdStart
from benchmarks.contenders import Suite
from benchmarks.per_query import PerQuery
from benchmarks.single_ranking import SingleRanking
from benchmarks.store_to_store import StoreToStore

SUITES: tuple[type[Suite], ...] = (SingleRanking, PerQuery, StoreToStore, ColdStart)
