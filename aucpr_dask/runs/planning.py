"""Plan a run from metadata alone: its tasks, rankings and bytes, and whether a worker can hold them."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import ChunkError
from aucpr_dask.evaluation.api import describe_scores, evaluate_part
from aucpr_dask.evaluation.groups import groups_of, read_for
from aucpr_dask.evaluation.mapping import are_small, need_whole_rankings
from aucpr_dask.evaluation.request import SCHEME, drawn_unit
from aucpr_dask.evaluation.results import axes_of, laid_out
from aucpr_dask.schema import checks, terms
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.scores.chunks import chunks_of, item_chunk
from aucpr_dask.scores.store import layout_of, reader_of
from aucpr_dask.storage.code_versions import code
from aucpr_dask.storage.urls import absolute, is_remote, public

if TYPE_CHECKING:
    from aucpr_dask.scores.archives import Layout, Like

SHARE_OF_MEMORY = 0.6  # of a worker's limit that a task may take: Dask starts to spill there
SHARE_BEFORE_PAUSE = 0.8  # of the limit, with what a worker holds before any task: beyond it, Dask starts no other task
MOST_TASKS = 50_000  # each writes some ten files: with several times as many, schedulers and disks get slow
SMALL_CHUNK = 1 << 14  # bytes; smaller chunks are not compressed, because any file takes up 4 KiB of a disk
FLAT = {"name": "default", "separator": "."}  # one folder for the chunks of an array: each costs up to 0.8 ms
HELD_BY_A_WORKER = 300 * 2**20  # bytes that a worker process takes with all it has imported, before any task
# Besides evaluating: records and checks of a task, metadata of a data set, what any run does, the start of processes.
SECONDS_OF_A_TASK, SECONDS_OF_A_DATA_SET, SECONDS_OF_A_RUN, SECONDS_TO_START = 0.006, 0.01, 0.2, 4
SECONDS_OF_A_NAME = 1e-6  # of an item, which is read and compared with the others
SECONDS_OF_AN_ITEM, SHARE_OF_A_RESAMPLE = 3e-7, 0.01  # of a ranking with the default interval; more rather than less
SECONDS_OF_TRIAL, GROWTH = 2.0, 4  # the last of growing trials takes no longer, as far as one can tell
MOST_LABELS = 1 << 20  # items whose labels are read to see whether they are graded
SHARE_MADE_UP = 0.01  # of positives among scores that are not there yet
READS_OF_A_TASK = 3  # of the ledger and the version of the source, next to the scores
PRICES = 0.0004, 0.005  # of a thousand objects, read and written, in dollars: Amazon's and Google's standard storage
PRICE_LIST = "Amazon's and Google's lists of 2025, without transfers"
MOST_TOGETHER, BATCHES_OF_A_THREAD, SECONDS_TOGETHER = 32, 32, 1.0  # of tasks that are submitted together

Region = tuple[tuple[str, int, int], ...]  # dimension, start, stop


@dataclass(frozen=True)
class Task:
    """An aligned part of one data set, which one worker reads, evaluates and writes."""

    path: str
    region: Region  # of the result
    steps: tuple[int, ...] = ()  # how much of each dimension to read at a time; all of it if empty
    places: tuple[tuple[int, ...], ...] = ()  # positions along each dimension of the source, where they differ

    @property
    def slices(self) -> dict[str, slice]:
        """The region as keyword indexers."""
        return {dim: slice(start, stop) for dim, start, stop in self.region}

    @property
    def in_source(self) -> dict[str, Any]:
        """The same rankings in the source, as keyword indexers."""
        return dict(zip(self.slices, map(list, self.places), strict=True)) if self.places else self.slices

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each dimension of the region."""
        return {dim: stop - start for dim, start, stop in self.region}

    @property
    def n_rankings(self) -> int:
        """The number of rankings in the region."""
        return math.prod(self.sizes.values())

    def parts(self) -> list[Task]:
        """Cut the task into parts to evaluate one after another, so that memory holds the scores of one."""
        if not self.steps:
            return [self]
        pieces = [
            [(dim, at, min(at + step, stop)) for at in range(start, stop, step)]
            for (dim, start, stop), step in zip(self.region, self.steps, strict=True)
        ]
        found = []
        for region in itertools.product(*pieces):
            inner = zip(self.region, region, self.places, strict=True) if self.places else ()
            places = tuple(places[a - start : b - start] for (_, start, _), (_, a, b), places in inner)
            found.append(Task(self.path, region, (), places))
        return found

    def place_of(self, part: Task) -> dict[str, slice]:
        """Return where one of the parts lies in the task."""
        return {
            dim: slice(inner - start, stop - start)
            for (dim, start, _), (_, inner, stop) in zip(self.region, part.region, strict=True)
        }

    def describe(self) -> str:
        """Name the data set, models and queries."""
        parts = [f"{dim} {start} to {stop - 1}" for dim, start, stop in self.region]
        return ", ".join([f"data set {self.path!r}", *parts] if self.path else parts) or "the data set"


def digest_of(tasks: Sequence[Task]) -> str:
    """Return the digest that ledgers record of tasks, which were called blocks when the format was fixed."""
    texts = (f"Block(path={t.path!r}, region={t.region!r}, steps={t.steps!r}, places={t.places!r})" for t in tasks)
    return hashlib.sha256(f"[{', '.join(texts)}]".encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """The tasks of a run, what they take, and what its result will look like."""

    source: str  # the score store
    layout: Layout | None  # of a store that another program wrote
    options: EvaluationOptions
    tasks: tuple[Task, ...]  # in the order in which they are submitted
    task_bytes: tuple[int, ...]  # the memory that each takes at most: scores, work space and results
    source_bytes: int  # uncompressed
    result_bytes: int
    parameters: Mapping[str, Any]  # everything that the numbers depend on, as a result records it
    unread: terms.Stored = field(repr=False, compare=False)  # the source as it is stored
    scores: terms.Stored = field(repr=False, compare=False)  # to evaluate, not read yet
    template: terms.Stored = field(repr=False, compare=False)  # the layout of the result

    def with_tasks(self, tasks: Sequence[Task]) -> Plan:
        """Return the plan to evaluate these parts of the same data sets."""
        if tasks is self.tasks:
            return self
        return replace(
            self, tasks=tuple(tasks), task_bytes=_bytes_of_all(tasks, self.scores, self.template, self.options)
        )

    def continuing(self, recorded: Mapping[str, Any]) -> Plan:
        """Return the plan for a result that is begun, whose dimensions stay."""
        axes = recorded["axes"]
        if axes == self.parameters["axes"]:
            return self
        sources = dict(terms.nodes_of(self.scores))
        lengths = _task_lengths(sources, {path: _chunk_lengths(dataset) for path, dataset in sources.items()})

        template = terms.map_nodes(self.template, lambda path, node: _encoded(laid_out(node, axes), lengths[path]))
        return replace(self, parameters={**self.parameters, "axes": axes}, template=template)

    @property
    def is_random(self) -> bool:
        """Whether random numbers decide resamples or folds."""
        return any("random_scheme" in node.attrs for _, node in terms.nodes_of(self.template))

    @property
    def is_small(self) -> bool:
        """Whether this process evaluates it sooner than workers, one on each core, would start and evaluate it."""
        if (seconds := sum(self.seconds)) < SECONDS_TO_START:
            return True  # on however many cores, and Dask takes a third of a second to be imported
        from dask.system import CPU_COUNT

        return seconds * (1 - 1 / CPU_COUNT) < SECONDS_TO_START

    @cached_property
    def seconds(self) -> list[float]:
        """The time that each task takes, in a rough estimate."""
        n_items = {path: node.sizes[terms.ITEM] for path, node in terms.nodes_of(self.scores)}
        resamples = self.options.resampling.n_resamples if self.is_random else 0
        of_item = SECONDS_OF_AN_ITEM * len(self.options.estimators) * (1 + SHARE_OF_A_RESAMPLE * resamples)
        return [SECONDS_OF_A_TASK + of_item * task.n_rankings * n_items[task.path] for task in self.tasks]

    def batches(self, waiting: Sequence[int], n_threads: int) -> list[list[int]]:
        """Return which tasks are submitted together: short ones, of which each thread still gets many batches."""
        most = min(MOST_TOGETHER, max(1, len(waiting) // (BATCHES_OF_A_THREAD * max(1, n_threads))))
        found, room = list[list[int]](), 0.0
        for number in waiting:
            room -= self.seconds[number]
            if not found or room < 0 or len(found[-1]) == most:
                found.append([])
                room = SECONDS_TOGETHER - self.seconds[number]
            found[-1].append(number)
        return found

    @cached_property
    def n_rankings(self) -> int:
        """The number of rankings of all tasks."""
        return sum(task.n_rankings for task in self.tasks)

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest task."""
        return max(self.task_bytes, default=0)

    def memory_needed(self, held: float) -> float:
        """Return the least memory of a worker thread that holds some before any task."""
        return max(self.largest / SHARE_OF_MEMORY, (self.largest + held) / SHARE_BEFORE_PAUSE)

    def check_memory(self, limit: float | None, held: float = 0.0) -> None:
        """Raise if a worker thread with `limit` bytes, of which some are held before any task, cannot hold a task."""
        if limit is None or not limit > 0 or not self.tasks:
            return
        needed = self.memory_needed(held)
        if limit >= needed:
            return
        room = min(SHARE_OF_MEMORY * limit, SHARE_BEFORE_PAUSE * limit - held)
        worst = self.tasks[int(np.argmax(self.task_bytes))]
        part = worst.parts()[0]

        def is_too_large(n_models: int) -> bool:
            region = tuple((dim, a, a + n_models if dim == terms.MODEL else b) for dim, a, b in part.region)
            return self.with_tasks([Task(part.path, region)]).largest > room

        numbers = range(1, part.sizes.get(terms.MODEL, 1) + 1)
        fitting = bisect.bisect_left(numbers, True, key=is_too_large) if room > 0 else 0
        what, received = "a task would not fit the memory of a worker", f"{_size(self.largest)} for a task, "
        received += f"{_size(limit)} of memory for each thread"
        received += f", of which a worker holds {_size(held)} before any task" if held else ""
        remedy = "give workers more memory, or fewer threads" + ("; a single ranking is too large" if room > 0 else "")
        if fitting:
            remedy = f"write the scores in chunks of {fitting} models: "
            remedy += f"save_scores(scores, ..., models_per_chunk={fitting})"
        remedy += "; or ask for an interval that draws no items: interval='logit'" if self.is_random else ""
        raise ChunkError(what, worst.describe(), received, f"from {_size(needed)} for each thread", remedy)


def plan_run(source: Any, *, dataset: Sequence[str] | None = None, like: Like = None, **options: Any) -> Plan:
    """Plan the evaluation of a score store; only metadata and the labels of queries and models are read.

    The arguments are those of :func:`aucpr_dask.run`, with the options of :func:`aucpr_dask.evaluate`.
    """
    asked = EvaluationOptions.of(**options)
    source = absolute(source)
    layout = layout_of(source, like)
    reader = reader_of(source, layout)
    digest = reader.digest()  # before anything else: what takes its place from now on is found
    unread = terms.select_data_sets(reader.planned(), dataset)
    stored = dict(terms.nodes_of(unread))

    def with_groups(path: str, node: xr.Dataset) -> xr.Dataset:  # in memory
        names = [name for name in read_for(asked.by) if name in node.variables and node[name].chunks is not None]
        return node.assign({name: stored[path][name].variable.compute() for name in names})

    scores = reader.described(unread)
    scores = terms.map_nodes(scores, with_groups) if asked.by else scores
    result = describe_scores(scores, asked)
    sources, results = dict(terms.nodes_of(scores)), dict(terms.nodes_of(result))
    steps = {path: _chunk_lengths(dataset) for path, dataset in sources.items()}
    for path, node in stored.items() if asked.positive_from is None else ():
        # Graded labels next to the first chunk of scores are refused now, not after workers have started.
        label = sources[path].get("label")  # which may be of classes now
        label = node.get("label") if label is None or label.chunks else label
        if label is not None:
            first = label.isel({dim: slice(n) for dim, n in steps[path].items() if dim in label.dims})
            checks.check_labels(first.isel({terms.ITEM: slice(MOST_LABELS)}).values, None, "variable 'label'")
    lengths = _task_lengths(sources, steps)
    tasks = [task for path, node in sources.items() for task in _tasks(path, node, lengths[path], steps[path])]
    origin = {"source": public(source), "source_digest": digest}
    if layout is not None:
        origin["source_layout"] = json.dumps(layout.as_parameters(), default=str)
    # What is sampled is recorded if it is the same in all data sets, asked for or not. Groups are by their digests:
    # those of rankings say nothing of them.
    units = {drawn_unit(asked.resampling.over, node) for node in sources.values()}
    meant: dict[str, Any] = {"over": units.pop()} if len(units) == 1 else {}
    if asked.by:
        codes = {path: groups_of(node, asked.by, path).code for path, node in sources.items()}
        meant["groups"] = {path: hashlib.sha256(code.tobytes()).hexdigest() for path, code in codes.items()}
    return Plan(
        source,
        layout,
        asked,
        tuple(tasks),
        _bytes_of_all(tasks, scores, result, asked),
        sum(_bytes_within(node, {}) for node in sources.values()),
        sum(node.nbytes for node in results.values()),
        {
            "options": asked.as_parameters() | meant,
            **origin,
            "random_scheme": SCHEME,
            "code": code(),
            "axes": axes_of(asked),
            "blocks": len(tasks),  # as tasks were called when the format was fixed
            "blocks_digest": digest_of(tasks),
        },
        unread,
        scores,
        _templates(result, lengths, origin),
    )


def describe(plan: Plan) -> dict[str, Any]:
    """Return the sizes of a plan, what it asks of storage, and the time it will take, in words.

    Labels are read, and as many rankings of the largest task are evaluated as a moment allows: random ones, if those of
    an archive are not there yet.
    """
    paths = [path for path, _ in terms.nodes_of(plan.scores)]
    reader = reader_of(plan.source, plan.layout)
    scores = reader.opened(paths, read_for(plan.options.by))
    is_there = all(reader.has_chunk(task.path, task.slices) for task in plan.tasks[:1])
    seconds = _seconds_on_one_core(plan, scores, is_there=is_there) if plan.tasks else 0.0
    n_data_sets = len({task.path for task in plan.tasks})
    seconds += SECONDS_OF_A_RUN + SECONDS_OF_A_DATA_SET * n_data_sets + SECONDS_OF_A_TASK * len(plan.tasks)
    named = (node.sizes[terms.ITEM] for _, node in terms.nodes_of(plan.scores) if terms.ITEM in node.coords)
    seconds += SECONDS_OF_A_NAME * sum(named)
    reads, writes = requests_of(plan)
    price = sum(n / 1000 * of_thousand for n, of_thousand in zip((reads, writes), PRICES, strict=True))
    threads = "one thread has" if len(plan.tasks) == 1 else f"at most {len(plan.tasks):,} threads have"
    return {
        "tasks": f"{len(plan.tasks):,}",
        "rankings": f"{plan.n_rankings:,}",
        "scores": _size(plan.source_bytes) + ("" if is_there else ", which are not there yet"),
        "result": _size(plan.result_bytes),
        "requests": f"about {reads:,} objects are read and {writes:,} written",
        "price_of_requests": f"about ${price:,.2f} on object storage, by {PRICE_LIST}",
        "memory_per_task": f"up to {_size(plan.largest)}",
        "memory_per_worker": f"from {_size(plan.memory_needed(HELD_BY_A_WORKER))} with one thread: "
        f"{_size(HELD_BY_A_WORKER)} before any task",
        "padding": f"{terms.percent(padding_share(scores), '.1f')} of the places of items",
        "workers": f"{threads} work, a chunk of scores each",
        "time": f"about {seconds:.2g} s on one core, and {SECONDS_TO_START} s to start workers"
        + ("" if is_there else ", for random scores in memory: reading comes on top"),
    }


def requests_of(plan: Plan) -> tuple[int, int]:
    """Return about how many objects the tasks of a plan read and write."""
    reads = 0
    # Of scores, the lengths of the chunks next to the items, and how many chunks hold the items.
    objects = dict[str, tuple[dict[str, int], int]]()
    for path, node in terms.nodes_of(plan.scores):
        score = node.variables["score"]
        lengths = {str(dim): int(n) for dim, n in score.encoding["preferred_chunks"].items()}
        n_items = score.sizes[terms.ITEM]
        of_items = -(-n_items // max(1, lengths.pop(terms.ITEM, n_items)))
        objects[path] = score.encoding.get("objects", (lengths, of_items))  # of an archive, other ones
    for task in plan.tasks:
        lengths, of_items = objects[task.path]
        steps = dict(zip(task.sizes, task.steps or task.sizes.values(), strict=True))
        of_dims = (
            sum(
                (min(at + steps[dim], stop) - 1) // lengths[dim] - at // lengths[dim] + 1
                for at in range(start, stop, steps[dim])
            )
            for dim, start, stop in task.region
            if dim in lengths
        )
        reads += math.prod(of_dims) * of_items + READS_OF_A_TASK
    arrays = [one for _, node in terms.nodes_of(plan.template) for one in node.variables.values()]
    chunks = (one.encoding.get("chunks") or one.shape for one in arrays)
    writes = sum(
        math.prod(-(-size // n) for size, n in zip(one.shape, lengths, strict=True) if n) + 1
        for one, lengths in zip(arrays, chunks, strict=True)
    )
    return reads, writes + len(plan.tasks)


def _seconds_on_one_core(plan: Plan, scores: Mapping[str, xr.Dataset], *, is_there: bool) -> float:
    """Estimate the time of all tasks by evaluating some rankings of the largest, and one of the smallest.

    A task takes a time of its own, which grows with what it reads, and a time for each ranking in proportion to its
    items. The latter follows from as many rankings as a moment allows.
    """
    n_items = {path: node.sizes[terms.ITEM] for path, node in terms.nodes_of(plan.scores)}
    work = np.array([task.n_rankings * n_items[task.path] for task in plan.tasks], np.float64)
    largest, smallest = plan.tasks[int(work.argmax())], plan.tasks[int(work.argmin())]
    task = largest.parts()[0]

    # Other programs on this machine don't count; waiting for a server does.
    clock = time.perf_counter if is_remote(plan.source) else time.process_time

    def timed(task: Task, lengths: Mapping[str, int]) -> float:
        slices = {dim: slice(place.start, place.start + lengths[dim]) for dim, place in task.slices.items()}
        part = scores[task.path].isel(slices)
        if not is_there:
            score, random = part["score"], np.random.default_rng(0)
            part = part.assign(score=score.copy(data=random.random(score.shape, dtype=score.dtype)))
            if "label" in part:
                positive = (random.random(part["label"].shape) < SHARE_MADE_UP).astype(np.int8)
                part = part.assign(label=part["label"].copy(data=positive))
        started = clock()
        evaluate_part(part, task.path, plan.options)
        return clock() - started

    lengths = dict.fromkeys(task.sizes, 1)
    timed(task, lengths)  # compiles
    of_one = of_last = timed(task, lengths)
    while lengths != task.sizes and GROWTH * of_last <= SECONDS_OF_TRIAL:
        dim = next(dim for dim, length in lengths.items() if length < task.sizes[dim])
        lengths[dim] = min(GROWTH * lengths[dim], task.sizes[dim])
        of_last = timed(task, lengths)
    n_tried = math.prod(lengths.values())
    of_each = (of_last - of_one) / (n_tried - 1) if n_tried > 1 and of_last > of_one else of_last / n_tried
    of_item = of_each / max(1, n_items[task.path])
    most = max(0.0, of_one - of_each)
    least = most
    if work.min() < work.max():
        of_small = timed(smallest, dict.fromkeys(smallest.sizes, 1)) - of_item * n_items[smallest.path]
        least = min(most, max(0.0, of_small))
    of_tasks = least + (most - least) * work / max(1.0, work.max())
    return float(of_tasks.sum() * len(largest.parts()) + of_item * work.sum())


def padding_share(scores: Mapping[str, xr.Dataset]) -> float:
    """Return the share of padding among the places of items: the cost of queries of different lengths. Reads labels."""
    labels = [node["label"] for node in scores.values() if "label" in node and terms.QUERY in node["label"].dims]
    places = sum(label.size for label in labels)
    empty = sum(int((label == terms.PADDING).sum()) for label in labels)
    return empty / places if places else 0.0


def _chunk_lengths(dataset: xr.Dataset) -> dict[str, int]:
    """Return the lengths of the chunks of the scores, by leading dimension."""
    chunks = dataset["score"].encoding["preferred_chunks"]
    return {str(dim): max(1, chunks[dim]) for dim in dataset["score"].dims if dim != terms.ITEM and dim in chunks}


def _task_lengths(
    sources: Mapping[str, xr.Dataset], chunk_lengths: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return the lengths of the tasks: those of the chunks of the scores, or multiples if there are too many chunks."""
    at_a_time = 1
    while True:
        lengths = {path: dict(chunks) for path, chunks in chunk_lengths.items()}
        for path, one in lengths.items():
            left = at_a_time  # first along the queries, which are neighbours in a result
            for dim in reversed(one):
                n_merged = min(left, max(1, -(-sources[path].sizes[dim] // one[dim])))
                one[dim] *= n_merged
                left = -(-left // n_merged)
        n_tasks = sum(
            math.prod(-(-sources[path].sizes[dim] // length) for dim, length in one.items())
            for path, one in lengths.items()
        )
        if n_tasks <= max(MOST_TASKS, len(sources)):
            return lengths
        at_a_time *= 2


def _tasks(path: str, dataset: xr.Dataset, lengths: Mapping[str, int], steps: Mapping[str, int]) -> list[Task]:
    """Return the tasks of a data set, aligned with its chunks."""
    ranges = [
        [(dim, start, min(start + length, dataset.sizes[dim])) for start in range(0, dataset.sizes[dim], length)]
        for dim, length in lengths.items()
    ]
    whole = () if lengths == steps else tuple(steps.values())
    return [Task(path, region, whole) for region in itertools.product(*ranges)]


def _bytes_of_all(
    tasks: Sequence[Task], scores: terms.Stored, results: terms.Stored, options: EvaluationOptions
) -> tuple[int, ...]:
    """Return the memory that each task takes at most, computed once for all tasks of the same shape."""
    sources, nodes = dict(terms.nodes_of(scores)), dict(terms.nodes_of(results))
    shapes = [(task.path, *task.sizes.values()) for task in tasks]
    examples = dict(zip(shapes, tasks, strict=True))
    bytes_of = {shape: _bytes_of(one, sources[one.path], nodes[one.path], options) for shape, one in examples.items()}
    return tuple(bytes_of[shape] for shape in shapes)


def _bytes_of(task: Task, scores: xr.Dataset, result: xr.Dataset, options: EvaluationOptions) -> int:
    """Return the memory of one task: scores as read and as ranked, work space, replicates, results."""
    score = scores["score"]
    part, n_items = task.parts()[0], score.sizes[terms.ITEM]
    roles = {*scores.data_vars} | ({"key"} if "n_resamples" in result.attrs else set())
    if drawn_unit(options.resampling.over, scores) != "clusters":
        roles.discard("cluster")
    is_small = are_small(part.n_rankings, n_items, score.dtype.itemsize)
    if not (is_small or "by" in result.attrs or need_whole_rankings(roles, options)):
        n_items = item_chunk(scores) or n_items  # which adds the positives
    n_estimators = result["estimate"].sizes.get("estimator", 1)
    replicates = 0
    if n_resamples := result.attrs.get("n_resamples"):
        from aucpr_dask.kernels import planned_bytes

        replicates = planned_bytes(part.n_rankings, n_items, n_estimators + 1, n_resamples)
    columns = 8 * part.n_rankings * (n_estimators + 16)
    workspace = 64 * n_items + (1 << 22)
    results = _bytes_within(result, task.sizes)
    at_hand = _bytes_within(scores, {**part.sizes, terms.ITEM: n_items})
    return 2 * at_hand + workspace + replicates + columns + results


def _bytes_within(dataset: xr.Dataset, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a part of a data set with these numbers of models, queries or items."""
    parts = (
        math.prod(min(sizes.get(str(dim), size), size) / max(1, size) for dim, size in one.sizes.items()) * one.nbytes
        for name, one in dataset.variables.items()
        # Of an archive, tasks read no coordinates along the items that nothing has asked for.
        if name in dataset.data_vars or one._in_memory or one.chunks is not None
    )
    return math.ceil(sum(parts))


def _templates(result: terms.Stored, lengths: Mapping[str, Mapping[str, int]], attrs: dict[str, str]) -> terms.Stored:
    """Return the layouts of results; those of data sets of one form are one object, which takes its time once."""
    known: dict[tuple[int, str], xr.Dataset] = {}

    def template(path: str, node: xr.Dataset) -> xr.Dataset:
        place = id(node), repr(lengths[path])
        if place not in known:
            known[place] = _encoded(node, lengths[path]).assign_attrs(attrs)
        return known[place]

    return terms.map_nodes(result, template)


def _encoded(result: xr.Dataset, lengths: Mapping[str, int]) -> xr.Dataset:
    template = terms.with_stored_names(result.drop_encoding(), is_result=True)
    for variable in template.data_vars.values():  # one chunk for each task, uncompressed if it is small
        chunks = chunks_of(variable.sizes, lengths)
        is_small = math.prod(chunks) * variable.dtype.itemsize <= SMALL_CHUNK
        variable.encoding = {"chunks": chunks, "chunk_key_encoding": FLAT} | ({"compressors": ()} if is_small else {})
    return template


def _size(n_bytes: float) -> str:
    value, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"
