"""Stores whose metadata or files are not what they should be: one clear error, and soon."""

import bz2
import gzip
import json
import lzma
import shutil
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AucprError, StoreError
from aucpr_dask.scores.store import SourceNodes
from aucpr_dask.storage.checksums import checksum_of, without_list
from aucpr_dask.storage.verifying import damage_of

VALUES: list[Any] = [None, 5, True, "x", [], {}, [{}], [5], "\ud800", 1.5]
HUGE = 10**18
SIZES: list[Any] = [[0, 0], [0], [-1, 5], [HUGE, HUGE], [10**400, 1], ["a", 1], [1.5, 2], [True, 1], [], *VALUES[:6]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound") / "scores.zarr"
    ap.save_scores(pooled(), place)
    return place


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "scores.zarr"))


def edited(store: Path, path: tuple[str, ...], value: Any) -> None:
    """Change a part of the root document; a function gets what it belongs to."""
    part = root = json.loads((store / "zarr.json").read_text())
    *outer, last = path
    for name in outer:
        part = part[name]
    part[last] = value(part) if callable(value) else value
    (store / "zarr.json").write_text(json.dumps(root))


def assert_refused(store: Path) -> None:
    """Raise unless the error, here and on the command line, says what, where, why, and what to do."""
    with pytest.raises(StoreError) as caught:
        ap.evaluate(ap.open_scores(store)).load()
    parts = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    assert parts == ["where", "received", "allowed", "remedy"]
    assert "received: \n" not in f"{caught.value}\n"
    assert len(str(caught.value)) < 2500
    result = CliRunner().invoke(main, ["info", str(store)])
    assert result.exit_code in (0, 2)  # what is damaged may be of no interest there
    assert result.exception is None or isinstance(result.exception, SystemExit)


NO_VERSIONS: list[Any] = ["abc", None, "1", "1e400", float("inf"), float("nan"), -1, True, 1.5, [1], {}]
INLINE: dict[str, Any] = {"kind": "inline", "must_understand": False, "metadata": {}}
GROUP = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
ROOT = "consolidated_metadata"
ARRAY = (ROOT, "metadata", "score")
EDITS: list[tuple[tuple[str, ...], Any]] = [
    *((("attributes",), value) for value in VALUES if value != {}),
    *((("attributes", "format_version"), value) for value in NO_VERSIONS),
    *(((ROOT,), value) for value in (*VALUES, INLINE)),
    *(((ROOT,), {"metadata": value}) for value in VALUES[:5]),
    *(((ROOT,), {"metadata": {"score": value}}) for value in VALUES),
    *(((*ARRAY, "shape"), value) for value in SIZES),
    *(((*ARRAY, "chunk_grid", "configuration", "chunk_shape"), value) for value in SIZES),
    ((ROOT, "metadata", "a"), lambda arrays: GROUP | {ROOT: INLINE | {"metadata": dict(arrays)}}),
    *(
        ((ROOT, "metadata", name), lambda arrays: arrays["score"])
        for name in ("\ud800", "a\0", "a\x1b[31m", "a\x9b31m")
    ),
]


@pytest.mark.parametrize(("path", "value"), EDITS, ids=lambda part: "document" if callable(part) else ascii(part)[:40])
def test_metadata_that_no_store_has(store: Path, path: tuple[str, ...], value: Any) -> None:
    edited(store, path, value)
    assert_refused(store)


@pytest.mark.parametrize("field", ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"])
@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_parts_of_an_array_of_a_wrong_type(store: Path, field: str, value: Any) -> None:
    edited(store, (*ARRAY, field), value)
    with pytest.raises(StoreError, match="the metadata of this store are damaged"):
        ap.open_scores(store)


NO_OBJECTS = [
    b"",
    b"[]",
    b"null",
    b'"x"',
    b'"\\ud800"',
    b"{",
    b"\xff\xfe{",
    b'{"a":"\xff"}',
    b"[" * 200_000,
    b'{"a":' * 200_000,
]


@pytest.mark.parametrize("content", NO_OBJECTS, ids=lambda content: ascii(content)[:30])
def test_root_documents_that_are_no_objects(store: Path, content: bytes) -> None:
    (store / "zarr.json").write_bytes(content)
    assert_refused(store)


OF_A_NODE: list[tuple[str, Any]] = [
    ("b/label", lambda arrays: arrays["b/label"] | {"shape": [3]}),
    ("b/score", lambda arrays: arrays["b/score"] | {"fill_value": "x"}),
    ("b/score", lambda arrays: arrays["b/score"] | {"data_type": "float99"}),
]


@pytest.mark.parametrize(("name", "value"), OF_A_NODE)
def test_metadata_of_a_data_set_among_others(tmp_path: Path, name: str, value: Any) -> None:
    place = tmp_path / "tree.zarr"
    ap.save_scores(xr.DataTree.from_dict(dict.fromkeys("ab", pooled())), place)
    (place / "zarr.json").write_bytes(without_list((place / "zarr.json").read_bytes()))
    edited(place, (ROOT, "metadata", name), value)
    for opened in (ap.open_scores, lambda url: SourceNodes(str(url)).opened(["a", "b"])):
        with pytest.raises(StoreError, match="damaged"):
            opened(place)


def test_a_document_that_no_memory_holds(store: Path) -> None:
    with (store / "zarr.json").open("r+b") as file:
        file.truncate(2**40)
    assert_refused(store)


ZEROS = bytes(2**20)
PACKED: dict[str, Callable[[int], bytes]] = {
    "zstd": lambda n: numcodecs.zstd.compress(n * ZEROS),
    "blosc": lambda n: numcodecs.blosc.compress(n * ZEROS, b"lz4", 5),
    "numcodecs.lz4": lambda n: numcodecs.lz4.compress(n * ZEROS),
    "gzip": lambda n: n * gzip.compress(ZEROS),
    "numcodecs.zlib": lambda n: n * zlib.compress(ZEROS),
    "numcodecs.bz2": lambda n: n * bz2.compress(ZEROS),
    "numcodecs.lzma": lambda n: n * lzma.compress(ZEROS),
}


@pytest.mark.sparse
@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("name", ["score", "model"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_chunks_never_unpack_to_more_than_is_declared(store: Path, codec: str, name: str, is_cut: bool) -> None:
    content = PACKED[codec](1 if is_cut else 64 if name == "score" else 512)
    content = content[: len(content) // 2] if is_cut else content
    codecs = {"name": codec, "configuration": {}}
    for document in (store / "zarr.json", store / name / "zarr.json"):
        root = json.loads(without_list(document.read_bytes()))
        array = root["consolidated_metadata"]["metadata"][name] if document.parent == store else root
        array["codecs"][1:-1] = [codecs]
        document.write_text(json.dumps(root))
    chunk = next(path for path in (store / name).rglob("*") if path.is_file() and path.name != "zarr.json")
    chunk.write_bytes(content + checksum_of(content))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError) as caught:
            ap.open_scores(store).load()
        assert tracemalloc.get_traced_memory()[1] < (10 if name == "score" else 220) * 2**20
    finally:
        tracemalloc.stop()
    if name == "score":
        assert str(chunk) in str(caught.value)
    assert [name in str(error) for error in damage_of(store)[1]] == [True]


def test_links_to_files_are_followed(store: Path, tmp_path: Path) -> None:
    (store / "zarr.json").rename(tmp_path / "elsewhere")
    (store / "zarr.json").symlink_to(tmp_path / "elsewhere")
    assert ap.open_scores(store).sizes["model"] == 5


def places_in(part: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every value of a document is."""
    yield at
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield from places_in(value, (*at, key))


def replaced(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    part = changed = json.loads(json.dumps(document))
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    return changed


@pytest.mark.filterwarnings("ignore:.* of another version")
@pytest.mark.parametrize(
    "n",
    [12, pytest.param(80, marks=pytest.mark.slow), pytest.param(6000, marks=[pytest.mark.slow, pytest.mark.nightly])],
)
def test_any_value_of_any_document_may_be_anything(tmp_path: Path, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by an error of this package, or changes nothing unless the document has lost its checksum."""
    monkeypatch.setattr("aucpr_dask.workers.connecting.current_client", lambda: None)
    scores, result, random = tmp_path / "s.zarr", tmp_path / "r.zarr", np.random.default_rng(n)
    ap.save_scores(pooled(2, 8), scores)
    expected = {scores: ap.open_scores(scores).load(), result: ap.run(scores, result).load()}
    opened = {scores: ap.open_scores, result: ap.open_result}
    files = [scores / "zarr.json", result / "zarr.json", *result.glob("*/zarr.json"), result / "ledger" / "state.json"]
    texts = {file: file.read_text() for file in files}
    for file in random.choice(np.array(files), n, p=[0.3, 0.3, *[0.2 / (len(files) - 3)] * (len(files) - 3), 0.2]):
        document = json.loads(texts[file])
        consolidated = document.get("consolidated_metadata", {})
        is_checked = "crc32c_of_document" not in consolidated or random.random() < 0.3
        consolidated.pop("crc32c_of_document", None) if not is_checked else None
        every = list(places_in(document))
        at, value = every[random.integers(len(every))], VALUES[random.integers(len(VALUES))]
        file.write_text(json.dumps(replaced(document, at, value)))
        store = scores if file.is_relative_to(scores) else result
        for call in (partial(opened[store], store), partial(ap.run, scores, result), partial(damage_of, store)):
            with suppress(AucprError):
                found = call()
                if is_checked and isinstance(found, xr.Dataset):
                    xr.testing.assert_equal(found, expected[scores if "score" in found else result])
        file.write_text(texts[file])
        if (result / "zarr.json").read_text() != texts[result / "zarr.json"]:
            raise AssertionError(f"a result was written again: {file}, {at}, {value!r}")
