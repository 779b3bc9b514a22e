"""What a run will do, known before its first task: blocks, rankings, bytes; and what it may not start with."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import ChunkError
from aucpr_dask.evaluation.api import evaluate_part, evaluate_scores
from aucpr_dask.evaluation.random_streams import SCHEME
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.variables import ITEM, MODEL, PADDING, QUERY
from aucpr_dask.scores import open_scores
from aucpr_dask.scores.store import chunks_of, described, described_variable, item_chunk, open_unread, source_digest
from aucpr_dask.storage.stores import Scores, map_nodes, nodes_of
from aucpr_dask.storage.urls import absolute, public

SHARE_OF_MEMORY = 0.6  # of a worker's limit that a block may take: Dask starts to spill there
MOST_BLOCKS = 50_000  # each is a task and some ten files: with several times as many, schedulers and disks get slow
SMALL_CHUNK = 1 << 14  # bytes of a result's chunk that are stored as they are: a file takes up 4 KiB of a disk anyway
FLAT = {"name": "default", "separator": "."}  # one folder for the chunks of an array: each costs up to 0.8 ms
SECONDS_OF_TRIAL = 2.0
DATE_ENCODING = {"units": "nanoseconds since 1970-01-01", "calendar": "proleptic_gregorian", "dtype": "int64"}

Region = tuple[tuple[str, int, int], ...]  # dimension, start, stop


@dataclass(frozen=True)
class Block:
    """One aligned part of one data set: what a task evaluates and writes."""

    path: str
    region: Region  # of the result
    steps: tuple[int, ...] = ()  # how much of each dimension to read at a time; all of it if empty
    places: tuple[tuple[int, ...], ...] = ()  # along each dimension of the source, where they are others

    @property
    def slices(self) -> dict[str, slice]:
        """The region as keyword indexers."""
        return {dim: slice(start, stop) for dim, start, stop in self.region}

    @property
    def in_source(self) -> dict[str, Any]:
        """Where the block is in the source, as keyword indexers."""
        return dict(zip(self.slices, map(list, self.places), strict=True)) if self.places else self.slices

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each dimension of the region."""
        return {dim: stop - start for dim, start, stop in self.region}

    @property
    def n_rankings(self) -> int:
        """How many rankings the block holds."""
        return math.prod(self.sizes.values())

    def parts(self) -> list[Block]:
        """Return the blocks to read and evaluate one after another, so that memory holds the scores of one."""
        if not self.steps:
            return [self]
        pieces = [
            [(dim, at, min(at + step, stop)) for at in range(start, stop, step)]
            for (dim, start, stop), step in zip(self.region, self.steps, strict=True)
        ]
        regions = itertools.product(*pieces)
        return [Block(self.path, region, (), self._places_in(region)) for region in regions]

    def _places_in(self, region: Region) -> tuple[tuple[int, ...], ...]:
        inner = zip(self.region, region, self.places, strict=True) if self.places else ()
        return tuple(places[a - start : b - start] for (_, start, _), (_, a, b), places in inner)

    def place_of(self, part: Block) -> dict[str, slice]:
        """Return where one of the parts lies in the block."""
        return {
            dim: slice(inner - start, stop - start)
            for (dim, start, _), (_, inner, stop) in zip(self.region, part.region, strict=True)
        }

    def describe(self) -> str:
        """Say which models and queries of which data set these are."""
        parts = [f"{dim} {start} to {stop - 1}" for dim, start, stop in self.region]
        return ", ".join([f"data set {self.path!r}", *parts] if self.path else parts) or "the data set"


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Parameters
    ----------
    source : str
        The score store.
    blocks : tuple of Block
        In the order in which they are handed out: one task each.
    block_bytes : tuple of int
        What each takes at most of a worker's memory: scores, work space and results.
    source_bytes, result_bytes : int
        Uncompressed sizes.
    parameters : mapping
        All that the numbers depend on, as a result records it.
    unread, scores, template : xarray.Dataset or xarray.DataTree
        The source as it is stored; what is evaluated, the scores themselves unread; what the result looks like.
    """

    source: str
    blocks: tuple[Block, ...]
    block_bytes: tuple[int, ...]
    source_bytes: int
    result_bytes: int
    parameters: Mapping[str, Any]
    unread: Scores = field(repr=False, compare=False)
    scores: Scores = field(repr=False, compare=False)
    template: Scores = field(repr=False, compare=False)

    def with_blocks(self, blocks: Sequence[Block]) -> Plan:
        """Return the plan to evaluate other blocks of the same data sets."""
        return replace(self, blocks=tuple(blocks), block_bytes=_bytes_of_all(blocks, self.scores, self.template))

    @cached_property
    def n_rankings(self) -> int:
        """Rankings in all."""
        return sum(block.n_rankings for block in self.blocks)

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest block."""
        return max(self.block_bytes, default=0)

    def check_memory(self, limit: float | None) -> None:
        """Raise if a worker thread with `limit` bytes cannot hold a block.

        Raises
        ------
        ChunkError
            Naming both numbers, and how many models a chunk may hold.
        """
        if limit is None or not limit > 0 or self.largest <= SHARE_OF_MEMORY * limit:
            return
        worst = self.blocks[int(np.argmax(self.block_bytes))]
        fitting = self._models_that_fit(worst.parts()[0], SHARE_OF_MEMORY * limit)
        raise ChunkError(
            "a block would not fit the memory of a worker",
            where=worst.describe(),
            received=f"{_size(self.largest)} for a block, {_size(limit)} of memory for each thread",
            allowed=f"blocks up to {SHARE_OF_MEMORY:.0%} of it",
            remedy=f"write the scores in chunks of {fitting} models: "
            f"save_scores(scores, ..., models_per_chunk={fitting})"
            if fitting
            else "give workers more memory, or fewer threads; one ranking alone is larger",
        )

    def _models_that_fit(self, block: Block, n_bytes: float) -> int:
        """Return of how many models a block like this one may be."""

        def is_too_large(n_models: int) -> bool:
            region = tuple((dim, a, a + n_models if dim == MODEL else b) for dim, a, b in block.region)
            return self.with_blocks([Block(block.path, region)]).largest > n_bytes

        return bisect.bisect_left(range(1, block.sizes.get(MODEL, 1) + 1), True, key=is_too_large)


def plan_run(source_url: str | Path, **options: Any) -> Plan:
    """Plan the evaluation of a score store; nothing but metadata and labels of queries and models is read.

    Parameters
    ----------
    source_url : str or Path
        A score store.
    **options
        The options of :func:`aucpr_dask.evaluate`.

    Returns
    -------
    Plan

    Raises
    ------
    StoreError
        If the source does not open.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; wherever the metadata tell.
    """
    asked = EvaluationOptions.of(**options)
    source = absolute(source_url)
    unread = open_unread(source)
    scores = described(unread)
    digest = source_digest(source, unread)
    lazy = evaluate_scores(scores, asked)
    sources, results = dict(nodes_of(scores)), dict(nodes_of(lazy))
    steps = {path: _chunk_lengths(dataset) for path, dataset in sources.items()}
    lengths = _block_lengths(sources, steps)
    blocks = [block for path, node in sources.items() for block in _blocks(path, node, lengths[path], steps[path])]
    return Plan(
        source,
        tuple(blocks),
        _bytes_of_all(blocks, scores, lazy),
        sum(node.nbytes for node in sources.values()),
        sum(node.nbytes for node in results.values()),
        {"options": asked.as_parameters(), "source": public(source), "source_digest": digest, "random_scheme": SCHEME}
        | {"blocks": len(blocks), "blocks_digest": hashlib.sha256(repr(blocks).encode()).hexdigest()},
        unread,
        scores,
        map_nodes(lazy, lambda path, result: _template(result, lengths[path], source, digest)),
    )


def describe(plan: Plan) -> dict[str, Any]:
    """Return what a person wants to know of a plan; rankings are evaluated, and labels are read, to tell it.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    dict
        Sizes with their units, as text; and the ``time``, from as many rankings of the first block as a moment allows.
    """
    scores = open_scores(plan.source, chunks=None)
    seconds = _try(plan, scores) if plan.blocks else 0.0
    return {
        "blocks": f"{len(plan.blocks):,}, one task each",
        "rankings": f"{plan.n_rankings:,}",
        "scores": _size(plan.source_bytes),
        "result": _size(plan.result_bytes),
        "memory_per_block": f"up to {_size(plan.largest)}",
        "memory_per_thread": f"from {_size(plan.largest / SHARE_OF_MEMORY)}",
        "padding": f"{padding_share(scores):.1%} of the places of items",
        "time": f"about {seconds:.3g} s on one core, by rankings of the first block",
    }


def _try(plan: Plan, scores: Scores) -> float:
    """Return the seconds that all rankings will take one core, by as many of the first block as a moment allows."""
    block, options = plan.blocks[0].parts()[0], EvaluationOptions.from_parameters(plan.parameters["options"])
    dataset = scores if isinstance(scores, xr.Dataset) else scores[block.path].to_dataset()

    def timed(slices: Mapping[str, slice]) -> float:
        started = time.perf_counter()
        evaluate_part(dataset.isel(slices), block.path, options)
        return time.perf_counter() - started

    one = {dim: slice(place.start, place.start + 1) for dim, place in block.slices.items()}
    timed(one)  # compiles
    of_one = timed(one)
    affordable = int(SECONDS_OF_TRIAL / of_one)
    if affordable >= block.n_rankings:
        tried, n_tried = block.slices, block.n_rankings
    else:
        n_tried = min(affordable, block.sizes.get(MODEL, 1))
        if n_tried <= 1:
            return of_one * plan.n_rankings
        tried = one | {MODEL: slice(one[MODEL].start, one[MODEL].start + n_tried)}
    return min(timed(tried) for _ in range(2)) * plan.n_rankings / n_tried


def padding_share(scores: Scores) -> float:
    """Return the share of the places of items that hold none: what queries of different lengths cost. Reads labels."""
    labels = [node["label"] for _, node in nodes_of(scores) if "label" in node and QUERY in node["label"].dims]
    places = sum(label.size for label in labels)
    empty = sum(int((label == PADDING).sum()) for label in labels)
    return empty / places if places else 0.0


def _chunk_lengths(dataset: xr.Dataset) -> dict[str, int]:
    """Return the lengths of the chunks of the scores, by leading dimension."""
    chunks = dataset["score"].encoding["preferred_chunks"]
    return {dim: max(1, chunks[dim]) for dim in (MODEL, QUERY) if dim in chunks}


def _block_lengths(
    sources: Mapping[str, xr.Dataset], chunk_lengths: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return the lengths of the blocks: those of the chunks of the scores, or multiples if these are too many."""
    at_a_time = 1
    while True:
        lengths = {path: _merged(sources[path], chunks, at_a_time) for path, chunks in chunk_lengths.items()}
        n_blocks = sum(
            math.prod(-(-sources[path].sizes[dim] // length) for dim, length in one.items())
            for path, one in lengths.items()
        )
        if n_blocks <= max(MOST_BLOCKS, len(sources)):
            return lengths
        at_a_time *= 2


def _merged(dataset: xr.Dataset, chunks: Mapping[str, int], at_a_time: int) -> dict[str, int]:
    """Return the lengths of blocks of so many chunks: first along the queries, which lie side by side in a result."""
    lengths = dict(chunks)
    for dim in reversed(lengths):
        n_merged = min(at_a_time, max(1, -(-dataset.sizes[dim] // lengths[dim])))
        lengths[dim] *= n_merged
        at_a_time = -(-at_a_time // n_merged)
    return lengths


def _blocks(path: str, dataset: xr.Dataset, lengths: Mapping[str, int], steps: Mapping[str, int]) -> list[Block]:
    """Return the aligned blocks of a data set."""
    ranges = [
        [(dim, start, min(start + length, dataset.sizes[dim])) for start in range(0, dataset.sizes[dim], length)]
        for dim, length in lengths.items()
    ]
    whole = () if lengths == steps else tuple(steps.values())
    return [Block(path, region, whole) for region in itertools.product(*ranges)]


def _kind(block: Block) -> tuple[Any, ...]:
    """Return what the memory of a block depends on: few are of another kind than their neighbours."""
    return (block.path, *block.sizes.values())


def _bytes_of_all(blocks: Sequence[Block], scores: Scores, results: Scores) -> tuple[int, ...]:
    """Return the memory that each block takes at most."""
    sources, nodes = dict(nodes_of(scores)), dict(nodes_of(results))
    kinds = {_kind(block): block for block in blocks}
    bytes_of = {kind: _bytes_of(one, sources[one.path], nodes[one.path]) for kind, one in kinds.items()}
    return tuple(bytes_of[_kind(block)] for block in blocks)


def _bytes_of(block: Block, scores: xr.Dataset, result: xr.Dataset) -> int:
    """Return the memory that a block takes at most: scores as read and as ranked, work space, replicates, results."""
    score = scores["score"]
    n_items = item_chunk(scores) or score.sizes[ITEM]  # at a time; of those in chunks, the positives come on top
    part = block.parts()[0]
    n_estimators = result["estimate"].sizes["estimator"]
    replicates = 0
    if n_resamples := result.attrs.get("n_resamples"):
        from aucpr_dask.kernels import planned_bytes

        replicates = planned_bytes(part.n_rankings, n_items, n_estimators + 1, n_resamples, bayesian=True)
    columns = 8 * part.n_rankings * (n_estimators + 16)
    workspace = 64 * n_items + (1 << 22)
    results = _bytes_within(result, block.sizes)
    at_hand = _bytes_within(scores, {**part.sizes, ITEM: n_items})
    return 2 * at_hand + workspace + replicates + columns + results


def _bytes_within(dataset: xr.Dataset, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a part of a data set: of so many of its models, queries or items."""
    parts = (
        math.prod(min(sizes.get(str(dim), size), size) / max(1, size) for dim, size in variable.sizes.items())
        * variable.nbytes
        for variable in dataset.variables.values()
    )
    return math.ceil(sum(parts))


def _template(result: xr.Dataset, lengths: Mapping[str, int], source: str, digest: str) -> xr.Dataset:
    variables = {name: array.variable for name, array in result.data_vars.items()}
    template = result.drop_encoding().assign(
        {name: described_variable(one, {}, **_encoding(one, lengths)) for name, one in variables.items()}
    )
    for coordinate in template.coords.values():
        if coordinate.dtype.kind == "M":  # in units that any later label has, too
            coordinate.encoding = DATE_ENCODING
    template.attrs |= {"source": public(source), "source_digest": digest}
    return template


def _encoding(variable: xr.Variable, lengths: Mapping[str, int]) -> dict[str, Any]:
    """Return how a variable of a result is stored: in a chunk for each block, plainly if that is small."""
    chunks = chunks_of(variable, lengths)
    is_small = math.prod(chunks) * variable.dtype.itemsize <= SMALL_CHUNK
    return {"chunks": chunks, "chunk_key_encoding": FLAT} | ({"compressors": ()} if is_small else {})


def _size(n_bytes: float) -> str:
    value, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"
