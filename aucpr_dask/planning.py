"""What a run will do, known before its first task: blocks, rankings, bytes; and what it may not start with."""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import ChunkError, explain
from aucpr_dask.evaluation import evaluate, evaluate_dataset
from aucpr_dask.resampling import SCHEME
from aucpr_dask.scores import open_scores
from aucpr_dask.stores import Scores, map_nodes, nodes_of, read_root_document
from aucpr_dask.variables import ITEM, MODEL, PADDING, QUERY

SHARE_OF_MEMORY = 0.6  # of a worker's limit that a block may take: Dask starts to spill there


@dataclass(frozen=True)
class Block:
    """One aligned part of one data set: what a task evaluates and writes."""

    path: str
    region: tuple[tuple[str, int, int], ...]  # dimension, start, stop

    @property
    def slices(self) -> dict[str, slice]:
        """The region as keyword indexers."""
        return {dim: slice(start, stop) for dim, start, stop in self.region}

    @property
    def n_rankings(self) -> int:
        """How many rankings the block holds."""
        return int(np.prod([stop - start for _, start, stop in self.region], dtype=np.int64))

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
    """

    source: str
    blocks: tuple[Block, ...]
    block_bytes: tuple[int, ...]
    source_bytes: int
    result_bytes: int
    parameters: Mapping[str, Any]
    template: Scores = field(repr=False, compare=False)

    @property
    def n_rankings(self) -> int:
        """Rankings in all."""
        return sum(block.n_rankings for block in self.blocks)

    @property
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
        models = next((stop - start for dim, start, stop in worst.region if dim == MODEL), 1)
        fitting = int(models * SHARE_OF_MEMORY * limit / self.largest)
        raise ChunkError(
            explain(
                "a block would not fit the memory of a worker",
                where=worst.describe(),
                received=f"{_size(self.largest)} for a block, {_size(limit)} of memory for each thread",
                allowed=f"blocks up to {SHARE_OF_MEMORY:.0%} of it",
                remedy=f"write the scores in chunks of {fitting} models: "
                f"save_scores(scores.chunk(model={fitting}), ...)"
                if fitting
                else "give workers more memory, or fewer threads; one ranking alone is larger",
            )
        )


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
    source = absolute(source_url)
    scores = open_scores(source)
    digest = hashlib.sha256(read_root_document(source)).hexdigest()
    lazy = evaluate(scores, **options)
    blocks = [Block(path, region) for path, result in nodes_of(lazy) for region in _regions(result)]
    sources, results = dict(nodes_of(scores)), dict(nodes_of(lazy))
    return Plan(
        source,
        tuple(blocks),
        tuple(_bytes_of(block, sources[block.path], results[block.path]) for block in blocks),
        sum(node.nbytes for node in sources.values()),
        sum(node.nbytes for node in results.values()),
        {"options": _all_options(options), "source": source, "source_digest": digest, "random_scheme": SCHEME}
        | {"blocks": len(blocks), "blocks_digest": hashlib.sha256(repr(blocks).encode()).hexdigest()},
        map_nodes(lazy, lambda path, result: _template(result, source, digest)),
    )


def _all_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an evaluation, those not given included, as JSON keeps them."""
    call = inspect.signature(evaluate).bind(None, **options)
    call.apply_defaults()
    named = {name: value for name, value in call.arguments.items() if name != "scores"}
    for name in ("estimators", "intervals"):
        named[name] = [named[name]] if isinstance(named[name], str) else list(named[name])
    return dict(json.loads(json.dumps(named, default=float)))


def describe(plan: Plan) -> dict[str, Any]:
    """Return what a person wants to know of a plan; one block is evaluated, and labels are read, to tell it.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    dict
        Sizes with their units, as text; and ``seconds_per_core``, measured on the first block.
    """
    scores = open_scores(plan.source, chunks=None)
    seconds = 0.0
    if plan.blocks:
        block, options = plan.blocks[0], plan.parameters["options"]
        dataset = scores if isinstance(scores, xr.Dataset) else scores[block.path].to_dataset()
        for _ in range(2):  # the first time compiles
            started = time.perf_counter()
            evaluate_dataset(dataset.isel(block.slices).load(), block.path, **options)
            seconds = (time.perf_counter() - started) * plan.n_rankings / max(1, block.n_rankings)
    return {
        "blocks": f"{len(plan.blocks):,}, one task each",
        "rankings": f"{plan.n_rankings:,}",
        "scores": _size(plan.source_bytes),
        "result": _size(plan.result_bytes),
        "memory_per_block": f"up to {_size(plan.largest)}",
        "memory_per_thread": f"from {_size(plan.largest / SHARE_OF_MEMORY)}",
        "padding": f"{padding_share(scores):.1%} of the places of items",
        "time": f"about {seconds:.3g} s on one core, by the first block",
    }


def padding_share(scores: Scores) -> float:
    """Return the share of the places of items that hold none: what queries of different lengths cost. Reads labels."""
    labels = [node["label"] for _, node in nodes_of(scores) if "label" in node and QUERY in node["label"].dims]
    places = sum(label.size for label in labels)
    empty = sum(int((label == PADDING).sum()) for label in labels)
    return empty / places if places else 0.0


def absolute(url: str | Path) -> str:
    """Return a local path as an absolute one: workers may stand elsewhere."""
    return str(url) if "://" in str(url) else str(Path(url).absolute())


def _bytes_of(block: Block, scores: xr.Dataset, result: xr.Dataset) -> int:
    """Return the memory that a block takes at most: scores as read and as ranked, work space, replicates, results."""
    from aucpr_dask.kernels import planned_bytes

    score = scores["score"]
    n_items = score.sizes[ITEM]
    part = scores.isel(block.slices)
    n_estimators = result["estimate"].sizes["estimator"]
    drawn = "n_resamples" in result.attrs
    replicates = (
        planned_bytes(block.n_rankings, n_items, n_estimators + 1, result.attrs["n_resamples"], bayesian=True)
        if drawn
        else 0
    )
    columns = 8 * block.n_rankings * (n_estimators + 16)
    workspace = 64 * n_items + (1 << 22)
    return 2 * part.nbytes + workspace + replicates + columns + result.isel(block.slices).nbytes


def _template(result: xr.Dataset, source: str, digest: str) -> xr.Dataset:
    template = result.drop_encoding()
    for name, variable in template.data_vars.items():
        template[name].encoding = {"chunks": tuple(chunks[0] for chunks in variable.chunks or ())}
    template.attrs |= {"source": source, "source_digest": digest}
    return template


def _regions(result: xr.Dataset) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield the aligned regions of a lazy result: the chunks of its leading dimensions."""
    chunks = result["n_positive"].chunksizes
    dims = [dim for dim in (MODEL, QUERY) if dim in chunks]
    ends = [np.cumsum(chunks[dim]) for dim in dims]
    for index in np.ndindex(*map(len, ends)):
        yield tuple(
            (dim, int(end[i] - chunks[dim][i]), int(end[i])) for dim, end, i in zip(dims, ends, index, strict=True)
        )


def _size(n_bytes: float) -> str:
    value, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"
