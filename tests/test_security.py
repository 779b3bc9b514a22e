"""Hostile input: names, stores and files that must neither break anything nor run anything."""

import gzip
import io
import json
import os
import pickle
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from conftest import few, ok, pooled, queried
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AucprError, FileFormatError, InvalidInputError
from aucpr_dask.progress import console_for
from aucpr_dask.schema.terms import nodes_of
from aucpr_dask.scores.importing import files
from aucpr_dask.scores.importing.arrays import import_arrays, import_xarray
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.scores.importing.trec import import_trec
from aucpr_dask.storage import stores, urls
from aucpr_dask.storage.verifying import damage_of
from aucpr_dask.view.tables import attributes_view

NAMES = [
    *("a/b", "/etc/passwd", "..", ".", "../../x", ".hidden", "", " ", "back\\slash", "c:\\x", "~", "$HOME"),
    *("%s", "{x}"),
    *("new\nline", "car\rriage", "tab\t", "nul\0inside", "nul\0", "\x7f", "\x9b31m", "\x1b[31mred", "\x1b]0;title\x07"),
    *("e\u0301", "\u00e9", "\u202egnp.exe", "😀", "👩‍💻", "\u2028", "\ufeffbom", "\uffff", "مرحبا", "模型"),
    *("<script>alert(1)</script>", "[bold]b[/]", "[/]", ":smile:", "=1+1", "+1", "-x", "@x", "*", "?[a]", "'", '"'),
    *("zarr.json", "c", "c/0", "ledger", "ledger/done/0", "__proto__", "null", "NaN", "None", "0"),
    *("x" * 300, "y" * 10_000),
]


def named(dim: str) -> xr.Dataset:
    names = np.array(NAMES, object)
    scores = pooled(len(NAMES), 30).drop_vars("item") if dim == "model" else queried(2, len(NAMES), 300)
    return scores.assign_coords({dim: names})


def strings_in(document: Any) -> set[str]:
    if isinstance(document, dict):
        return set().union(*map(strings_in, document.values()), map(str, document))
    if isinstance(document, list):
        return set().union(*map(strings_in, document))
    return {document} if isinstance(document, str) else set()


# Names of models and queries


class Stop(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("dim", ["model", "query"])
def test_any_text_can_name_models_and_queries(tmp_path: Path, dim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "CHUNK_BYTES", 8192)
    place = tmp_path / "inside"
    place.mkdir()
    source, target = place / "scores.zarr", place / "result.zarr"
    scores = named(dim)
    ap.save_scores(scores, source)
    assert ap.open_scores(source)[dim].values.tolist() == NAMES

    def stop(event: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        ap.run(source, target, on_progress=stop)
    result = ap.run(source, target)
    assert result[dim].values.tolist() == NAMES
    np.testing.assert_array_equal(result["estimate"].values, ap.evaluate(scores)["estimate"].values)
    assert sorted(path.name for path in place.iterdir()) == ["result.zarr", "scores.zarr"]
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]

    of_items = ("--method", "influence") if dim == "model" else ()
    questions: list[tuple[object, ...]] = [
        ("info", source),
        ("info", target),
        ("show", target, "--top", 100),
        ("compare", source if of_items else target, *of_items, "--top", 100),
    ]
    for words in questions:
        lines = ok(*words).stdout.splitlines()
        assert all(line.isprintable() for line in lines), words
        # A command to copy stays in one line, however long its paths.
        assert max(len(line) for line in lines if not line.startswith("next: ")) <= 80
    if dim == "model":
        shown = ok("show", target, "--top", 100).stdout
        rows = [line for line in shown.splitlines() if line.split()[0].isdigit()]
        assert len(rows) == len(NAMES)  # each in one line
        assert r"new\nline" in shown
        assert r"\x1b[31mred" in shown
        assert "[bold]b[/]" in shown
        known = strings_in(json.loads(ok("show", target, "--json").stdout))
        assert known >= set(NAMES)
        assert strings_in(json.loads(ok("compare", source, *of_items, "--json").stdout)) >= set(NAMES)


def test_a_name_that_is_not_unicode_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for dim, names in (("model", ["caf\udce9", "a"]), ("item", ["caf\udce9", *"abcd"])):
        scores = pooled(2, 5).assign_coords({dim: names})
        with pytest.raises(InvalidInputError, match=r"(?s)not Unicode.*caf\\+udce9"):
            ap.save_scores(scores, tmp_path / "scores.zarr")
        assert list(tmp_path.iterdir()) == []


def test_a_run_file_with_a_name_of_another_encoding_is_refused(tmp_path: Path) -> None:
    run = os.fsencode(tmp_path) + b"/caf\xe9.run"
    Path(os.fsdecode(run)).write_text("q1 Q0 d1 1 2.5 x\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    with pytest.raises(InvalidInputError, match="not Unicode"):
        import_trec(os.fsdecode(run), tmp_path / "qrels", tmp_path / "scores.zarr")


# Names of data sets

HOSTILE = ["\0", "new\nline", "x" * 256, "\x1b[31m", "back\\slash", "\udce9", "y" * 10_000]


@pytest.mark.parametrize(
    "name",
    ["..", "...", "zarr.json", ".zgroup", "ledger", "ledger/done", "a/zarr.json", "__proto__", *HOSTILE],
)
def test_a_data_set_that_would_not_have_its_own_folder_is_refused(tmp_path: Path, name: str) -> None:
    tree = xr.DataTree.from_dict({name: pooled(), "other": pooled()})
    for use in (lambda: ap.save_scores(tree, tmp_path / "scores.zarr"), lambda: ap.evaluate(tree)):
        with pytest.raises(InvalidInputError, match="this is not a valid name for a data set") as caught:
            use()
        assert len(str(caught.value)) < 700
        assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "zarr.json"])
def test_coordinates_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    scores = pooled(2, 5).assign_coords({name: ("item", np.arange(5))})
    with pytest.raises(InvalidInputError, match="this is not a valid name"):
        ap.save_scores(scores, tmp_path / "scores.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_inside_another_cannot_be_named_like_its_results() -> None:
    tree = xr.DataTree.from_dict({"a": pooled(), "a/estimate": pooled()})
    with pytest.raises(InvalidInputError, match="the name of one of its variables"):
        ap.evaluate(tree)


def test_slashes_make_groups(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"trec/2019": pooled(), "trec/2020": pooled(seed=1), "é/c": pooled(seed=2)})
    ap.save_scores(tree, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    assert sorted(path for path, _ in nodes_of(result)) == ["trec/2019", "trec/2020", "é/c"]
    assert "trec/2019" in ok("show", tmp_path / "result.zarr", "--dataset", "trec/2019").stdout


any_text = st.text(st.characters(exclude_categories=()), max_size=12)


@few
@given(name=any_text, models=st.lists(any_text, min_size=1, max_size=3, unique=True))
def test_a_store_holds_any_names_exactly_or_nothing_is_written(
    tmp_path_factory: pytest.TempPathFactory, name: str, models: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    try:
        scores = pooled(len(models), 5).assign_coords(model=np.array(models, object))
        tree = xr.DataTree.from_dict({name: scores, "an other": pooled(1, 5)})
    except (ValueError, KeyError):  # xarray itself has no such name
        return
    try:
        ap.save_scores(tree, folder / "scores.zarr")
    except InvalidInputError:
        assert list(folder.iterdir()) == []
        return
    assert [path.name for path in folder.iterdir()] == ["scores.zarr"]
    stored, given_nodes = dict(nodes_of(ap.open_scores(folder / "scores.zarr"))), dict(nodes_of(tree))
    assert stored.keys() == given_nodes.keys()
    (path,) = set(given_nodes) - {"an other"}
    assert stored[path]["model"].values.tolist() == models


# What is shown


def test_untrusted_text_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\u202efine\r\x08 [bold]\nsecond"
    console = console_for()
    console.print(hostile)
    console.print(attributes_view({"na\x1b[31mme": hostile, "list": [hostile]}))
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\x1b[2J" in shown
    assert "[bold]" in shown


CONTROLS = [f"m{chr(code)}x" for code in (*range(32), *range(0x7F, 0xA0))]


@pytest.mark.slow
def test_names_with_control_characters_are_shown_escaped_in_python_too(tmp_path: Path) -> None:
    result = ap.evaluate(pooled(len(CONTROLS), 30).assign_coords(model=np.array(CONTROLS, object)))
    for text in (repr(result.aucpr), result.aucpr._repr_html_()):
        assert all(line.isprintable() for line in text.split("\n"))
    for name in CONTROLS:
        table = f'y,"{name}",b\n1,,0.5\n0,,0.1\n'
        (tmp_path / "a.csv").write_bytes(table.encode())
        summary = import_table(tmp_path / "a.csv", tmp_path / "scores.zarr", label="y", overwrite=True)
        assert ap.open_scores(tmp_path / "scores.zarr")["model"].values.tolist() == [name, "b"]
        assert all(line.isprintable() for line in str(summary).split("\n"))
        assert repr(name)[2:-2] in str(summary) or "without a score" in str(summary)


def test_errors_keep_their_shape_for_any_quoted_text() -> None:
    message = str(AucprError("no store here", where="a\n  remedy: rm -rf ~\x1b[8m", received="\u202eabc"))
    assert message.splitlines() == [
        "no store here",
        "  where: a",
        r"      remedy: rm -rf ~\x1b[8m",
        r"  received: \u202eabc",
    ]


# Credentials in URLs


SECRET = "sWoRdFiSh"
URLS_WITH_SECRETS = [
    f"s3://KEY:{SECRET[:4]}/{SECRET}@bucket/x",
    f"https://ann:pa/{SECRET}@host/x",
    f"zip://x::https://ann:{SECRET}@host/y.zip",
    f"simplecache::https://ann:{SECRET}@host/y",
    f"zip://x::simplecache::https://ann:p::{SECRET}@host/y",
    f"https://host/x#sig={SECRET}",
    f"https://host/x;sig={SECRET}",
    f"https://host:8080/x;a=b;sig={SECRET}#c",
    f"https://host/x?mail=a@{SECRET}",
    f"https://ann:pw@host/x?mail=a@{SECRET}",
    f"hf://datasets/a/b:{SECRET}@rev",
    f"ftp://ann:p@{SECRET}/word@host",
    f"ftp://ann:p@ss/{SECRET}@host",
    f"https://ann:p?{SECRET}@host",
    f"https://ann:p#{SECRET}@host/x",
    f"https://ann:{SECRET}/@host/x@v1",
    f"https://{SECRET}/token@host/x",
    f"s3://key@/:{SECRET}@bucket/x",
    f"zip://x?sig=a::https://{SECRET}",
]


def assert_hidden(url: str, secret: str) -> None:
    place = urls.concealed(url)
    try:
        whole = urls.absolute(place)
    except AucprError as error:
        whole = str(error)
    errors = [AucprError("no store", where=place, received=repr(place)), FileNotFoundError(urls.public(url))]
    for text in (urls.public(url), str(place), repr([place]), str(whole), repr(whole), *map(str, errors)):
        assert secret not in text, text
    assert urls.public(urls.public(url)) == urls.public(url)
    assert urls.revealed(place) == url
    assert urls.revealed(pickle.loads(pickle.dumps(place))) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://ann:{SECRET}@example.org/a/b", "https://example.org/a/b"),
        (f"https://{SECRET}@example.org/a", "https://example.org/a"),
        (f"https://ann:{SECRET}@fish@example.org/a", "https://example.org/a"),
        (f"https://b.s3.amazonaws.com/k?X-Amz-Signature={SECRET}", "https://b.s3.amazonaws.com/k"),
        (f"https://example.org?sig={SECRET}", "https://example.org"),
        (f"HTTPS://ann:{SECRET}@example.org", "HTTPS://example.org"),
        (f"s3://key:{SECRET}@bucket/a", "s3://bucket/a"),
        (f"ftp://ann:{SECRET}@host/a@b", "ftp://***"),
    ],
)
def test_the_rest_of_a_url_with_credentials_is_shown(url: str, shown: str) -> None:
    assert_hidden(url, SECRET)
    hidden = urls.concealed(url)
    assert urls.public(url) == shown
    assert urls.has_secret(url)
    for text in (f"{hidden}", "%s" % hidden, json.dumps([hidden]), "".join([hidden]), hidden.upper().lower()):  # noqa: UP031
        assert SECRET.lower() not in text.lower()
    for again in (urls.absolute(hidden), urls.absolute(urls.absolute(hidden))):
        assert SECRET in urls.revealed(again)
        assert SECRET not in str(pickle.loads(pickle.dumps(again)))


@pytest.mark.parametrize("url", URLS_WITH_SECRETS)
def test_credentials_are_hidden_wherever_a_url_has_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_hidden(url, SECRET)

    def fail(*args: Any, **options: Any) -> None:
        raise ValueError(f"cannot open {args} {options}")

    monkeypatch.setattr("aucpr_dask.storage.remote._client_of", fail)
    with pytest.raises(AucprError) as caught:
        ap.open_scores(url)
    assert SECRET not in f"{caught.value!s}{caught.value!r}"
    shown = CliRunner().invoke(main, ["info", url]).output
    assert SECRET not in shown


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.example.org/gh/user/repo@v1/scores.zarr",
        "https://example.org:8080/a/b",
        "s3://bucket/a@b/x:y",
        "sftp://ann@host/a",
        "zip://a.zarr::https://example.org:80/b.zip",
        "abfs://container@account.dfs.core.windows.net/a",
        *("/tmp/a@b:c?d", "a"),
    ],
)
def test_urls_without_credentials_are_shown_as_they_are(url: str) -> None:
    assert urls.public(url) == url
    assert type(urls.concealed(url)) is str


_reserved = ":/?#[]@!$&'()*+,;=%"
secrets = st.text("aZ7" + _reserved, max_size=6).map(lambda text: f"sEc{text}rEt")
words = st.text("abc01.-_", min_size=1, max_size=5)
plain_urls = st.builds("{}://{}/{}".format, st.sampled_from(["s3", "https", "hf", "zip", "ftp"]), words, words)


@st.composite
def urls_with_secrets(draw: Any) -> tuple[str, str]:
    secret, scheme = (
        draw(secrets),
        draw(st.sampled_from(["s3", "gs", "az", "http", "https", "HTTPS", "hf", "ftp", "sftp"])),
    )
    host, path, user = draw(words), draw(words), draw(st.text("abc" + _reserved, max_size=4))
    place = draw(st.sampled_from([f"{host}/{path}", host, f"{host}:8080/{path}/"]))
    rest = {
        "password": f"{user}:{secret}@{place}",
        "query": f"{place}?{draw(words)}={secret}",
        "fragment": f"{place}#sig={secret}",
        "parameter": f"{place};{draw(words)}={secret}",
        "both": f"{user}:{secret}@{place}?sig={secret}#{secret}",
        "revision": f"{place}:{secret}@{draw(words)}",
    }[draw(st.sampled_from(["password", "query", "fragment", "parameter", "both", "revision"]))]
    chain = draw(st.sampled_from(["", "zip://x::", "simplecache::", "zip://*.csv::simplecache::"]))
    after = draw(st.sampled_from(["", "::{}"])).format(draw(plain_urls))
    return f"{chain}{scheme}://{rest}{after}", secret


@settings(max_examples=300)
@example(("s3://=@:sEc/rEt@0/0", "sEc/rEt"))  # the user holds an @, the password a slash
@example(("s3://a@b:1/rEt@0/0", "1/rEt"))
@given(urls_with_secrets())
def test_no_secret_of_any_url_is_shown(url_and_secret: tuple[str, str]) -> None:
    assert_hidden(*url_and_secret)


@pytest.mark.needs("obstore")
def test_a_fetched_file_is_not_named_after_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore
    from obstore.store import MemoryStore

    from aucpr_dask.storage import remote

    server = MemoryStore()
    monkeypatch.setattr(remote, "_client_of", lambda url: server)
    for mark in (";sig=", "#sig=", "?sig="):
        url = f"https://example.org/a.csv{mark}{SECRET}"
        obstore.put(server, url.partition("?")[0].rpartition("/")[2], b"y,forest\n1,0.5\n0,0.1\n")
        import_table(url, tmp_path / "scores.zarr", label="y", overwrite=True)
        assert ap.open_scores(tmp_path / "scores.zarr").attrs["source"] == "a.csv"


# Code of strangers


class Bomb:
    """Something that, when unpickled, makes a file."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    """Return the file that bombs make, and look at the end that none went off."""
    place = tmp_path / "went-off"
    yield place
    assert not place.exists()


def test_the_bombs_of_these_tests_go_off(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


def test_arrays_are_never_unpickled(tmp_path: Path, mark: Path) -> None:
    bombs = np.array([Bomb(mark)] * 2, object)
    labels = np.array([0, 1])
    np.savez(tmp_path / "a.npz", scores=np.zeros((2, 2)), y=labels, models=bombs)
    np.savez(tmp_path / "b.npz", scores=bombs, y=labels)
    np.save(tmp_path / "c.npy", bombs)
    np.savez(tmp_path / "d.npz", scores=np.zeros((2, 2)), y=np.array([(1, bombs)], [("a", "i8"), ("b", "O")]))
    for name in ("a.npz", "b.npz", "c.npy", "d.npz"):
        with pytest.raises(FileFormatError, match="Python objects, which are never unpickled"):
            import_arrays(
                tmp_path / name, tmp_path / "scores.zarr", label=tmp_path / "c.npy" if name == "c.npy" else "y"
            )
    (tmp_path / "e.npz").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(FileFormatError, match="not a file of NumPy arrays"):
        import_arrays(tmp_path / "e.npz", tmp_path / "scores.zarr")


PICKLED = {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle", "protocol": 5}}


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let numcodecs unpickle, as its older versions do."""
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)


def array_of_bombs(mark: Path, **other: Any) -> tuple[dict[str, Any], bytes]:
    """Return the metadata of an array of Zarr 2, and its chunk."""
    document = {"zarr_format": 2, "shape": [5], "chunks": [5], "fill_value": None, "order": "C"}
    return document | PICKLED | other, pickle.dumps([Bomb(mark)] * 5)


@pytest.mark.usefixtures("careless")
def test_a_zarr_store_with_pickles_is_not_read(tmp_path: Path, mark: Path) -> None:
    source = tmp_path / "theirs.zarr"
    pooled().drop_vars("item").to_zarr(source, zarr_format=2, consolidated=False)
    document, chunk = array_of_bombs(mark)
    (source / "model/.zarray").write_text(json.dumps(document))
    (source / "model/0").write_bytes(chunk)
    with pytest.raises(TypeError):  # the codec gets a file, not bytes: the bomb went off
        zarr.open_array(source / "model", mode="r")[:]
    mark.unlink()
    for engine in (None, "zarr"):
        with pytest.raises(FileFormatError, match=r"(?s)never unpickled.*codec 'pickle'"):
            import_xarray(source, tmp_path / "scores.zarr", engine=engine)
    for other in ({"filters": [{"id": "pickle", "protocol": 5}]}, {"dtype": "<f8", "filters": None}):
        (source / "model/.zarray").write_text(json.dumps(document | other))
        with pytest.raises(FileFormatError, match="pickle"):
            import_xarray(source, tmp_path / "scores.zarr")
    assert not (tmp_path / "scores.zarr").exists()


def with_metadata(place: Path, change: Any) -> None:
    """Change the consolidated metadata of a store."""
    root = json.loads((place / "zarr.json").read_text())
    change(root["consolidated_metadata"]["metadata"])
    (place / "zarr.json").write_text(json.dumps(root))


@pytest.mark.usefixtures("careless")
def test_pickles_in_one_of_our_own_stores_are_not_read(tmp_path: Path, mark: Path) -> None:
    ap.save_scores(pooled().drop_vars("item"), tmp_path / "scores.zarr")
    ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    ap.save_comparison(
        ap.compare(ap.open_scores(tmp_path / "scores.zarr"), method="influence"), tmp_path / "pairs.zarr"
    )
    document, chunk = array_of_bombs(mark, attributes={"_ARRAY_DIMENSIONS": ["model"]}, dimension_separator=".")
    for name, use in (("scores", ap.open_scores), ("result", ap.open_result), ("pairs", ap.open_comparison)):
        place = tmp_path / f"{name}.zarr"
        shutil.rmtree(place / "model")
        (place / "model").mkdir()
        (place / "model/0").write_bytes(chunk)
        with_metadata(place, lambda metadata: metadata.update(model=document))
        with pytest.raises(FileFormatError, match=r"(?s)never unpickled.*'model'.*codec 'pickle'"):
            use(place)
        result = CliRunner().invoke(main, ["info", str(place)])
        assert result.exit_code == 2
        assert "never unpickled" in result.output


@pytest.mark.parametrize("codec", ["numcodecs.pickle", "numcodecs.json2", "somebody.else"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_unknown_codecs_are_named(tmp_path: Path, codec: str, is_sharded: bool) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")

    def change(metadata: dict[str, Any]) -> None:
        codecs = [{"name": codec, "configuration": {}}]
        shards = {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": [1], "codecs": codecs, "index_codecs": []},
        }
        metadata["score"]["codecs"] = [shards] if is_sharded else codecs

    with_metadata(tmp_path / "scores.zarr", change)
    with pytest.raises(FileFormatError, match=codec.removeprefix("numcodecs.")):
        ap.open_scores(tmp_path / "scores.zarr")


CHANGES: dict[str, Any] = {
    "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
    "pickle": {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle", "configuration": {}}]},
    "shape": [5, 59],
    "more models": {"shape": [4, 60]},
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 60]}},
    "fill_value": 0.5,
    "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
    "dimension_names": ["item", "model"],
}


def test_what_contradicts_the_metadata_of_a_store_is_not_read_by_a_run_and_named_by_verify(
    tmp_path: Path,
) -> None:
    scores = xr.DataTree.from_dict({f"d{number}": pooled() for number in range(1 + len(CHANGES))})
    ap.save_scores(scores, tmp_path / "scores.zarr")
    changed = {}
    for name, (change, value) in zip(scores.children, CHANGES.items(), strict=False):  # the last one stays as it is
        place = tmp_path / "scores.zarr" / name / "score/zarr.json"
        own = json.loads(place.read_text())
        changed[name] = value if isinstance(value, dict) and change not in own else {change: value}
        place.write_text(json.dumps(own | changed[name]))
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr")
    expected = ap.evaluate(scores)
    for name in scores.children:  # workers open arrays by the consolidated metadata, which are checked
        xr.testing.assert_identical(result[name]["estimate"].load(), expected[name]["estimate"])
    _, damage, _ = damage_of(tmp_path / "scores.zarr")
    assert len(damage) == len(CHANGES)
    for name, new in changed.items():
        (error,) = (str(one) for one in damage if f"{name}/score" in str(one))
        assert next(iter(new)) in error or "pickle" in error


@pytest.mark.parametrize("path", ["../other.zarr", "x/../../other.zarr", "..\\other.zarr", "/other", "."])
def test_metadata_cannot_lead_out_of_a_store(tmp_path: Path, path: str) -> None:
    for name in ("scores", "other"):
        ap.save_scores(pooled(), tmp_path / f"{name}.zarr")

    def change(metadata: dict[str, Any]) -> None:
        for name in list(metadata):
            metadata[f"{path}/{name}"] = metadata.pop(name)
        metadata[path] = {"attributes": {}, "zarr_format": 3, "node_type": "group"}

    with_metadata(tmp_path / "scores.zarr", change)
    with pytest.raises(FileFormatError, match="leads out of the store"):
        ap.open_scores(tmp_path / "scores.zarr")


def test_hdf5_files_hold_their_own_numbers(tmp_path: Path) -> None:
    import h5py

    secret = tmp_path / "secret"
    secret.write_bytes(np.arange(10.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["score"] = np.zeros((2, 5))

    def outside(file: Any) -> None:
        file.create_dataset("score", (2, 5), dtype="f8", external=[(str(secret), 0, 80)])

    def link(file: Any) -> None:
        file["inner/score"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/score")

    def virtual(file: Any) -> None:
        layout = h5py.VirtualLayout((2, 5), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "score", (2, 5))
        file.create_virtual_dataset("score", layout)

    def reference(file: Any) -> None:
        file.create_dataset("cluster", data=[file["label"].ref] * 5, dtype=h5py.ref_dtype)

    def circle(file: Any) -> None:
        file.create_group("inner")["itself"] = file["/"]

    for name, add, found in (
        ("e", circle, "in two places"),
        ("a", outside, "in another file"),
        ("b", link, "a link to another file"),
        ("c", virtual, "in another file"),
        ("d", reference, "references to objects"),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["label"] = np.array([1, 0, 0, 1, 0])
            add(file)
        with pytest.raises(FileFormatError, match=found):
            import_xarray(tmp_path / f"{name}.h5", tmp_path / "scores.zarr")


def test_parquet_extensions_are_not_unpickled(tmp_path: Path, mark: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    hostile = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb(mark)),
    }
    schema = arrow.schema([arrow.field("forest", arrow.float64(), metadata=hostile), arrow.field("y", arrow.int64())])
    parquet.write_table(arrow.table([[0.5, 0.1], [1, 0]], schema=schema), tmp_path / "a.parquet")
    assert b"py_extension_type" in (tmp_path / "a.parquet").read_bytes() or parquet.read_schema(
        tmp_path / "a.parquet"
    ).field("forest").metadata.keys() >= {b"ARROW:extension:name"}
    import_table(tmp_path / "a.parquet", tmp_path / "scores.zarr", label="y")
    assert ap.open_scores(tmp_path / "scores.zarr")["score"].values.tolist() == [[0.5, 0.1]]


def test_the_content_of_a_file_decides_how_it_is_opened(tmp_path: Path) -> None:
    dataset = pooled().drop_vars("item")
    dataset.to_netcdf(tmp_path / "a.zarr", engine="scipy")
    dataset.to_netcdf(tmp_path / "b", engine="h5netcdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text of fixed width may change in Zarr
        dataset.to_zarr(tmp_path / "c.nc", zarr_format=3, consolidated=False)
    for name in ("a.zarr", "b", "c.nc"):
        import_xarray(tmp_path / name, tmp_path / "scores.zarr", overwrite=True)
    (tmp_path / "d.nc").write_bytes(b"GRIB....")
    (tmp_path / "e.zarr").mkdir()
    for name, found in (("d.nc", "begins with b'GRIB'"), ("e.zarr", "without metadata"), ("f.nc", "nothing")):
        with pytest.raises(FileFormatError, match=found):
            import_xarray(tmp_path / name, tmp_path / "scores.zarr", overwrite=True)


# Files of strangers


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Return a folder of runs, next to qrels and a private file."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "bm25.run").write_text("q1 Q0 d1 1 2.5 x\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "secret").write_text("q1 Q0 d1 1 9.9 secret\n")
    return folder


def test_links_out_of_a_folder_are_refused_and_those_that_are_named_followed(tmp_path: Path, unpacked: Path) -> None:
    (unpacked / "inside.run").symlink_to(unpacked / "bm25.run")
    import_trec(unpacked, tmp_path / "qrels", tmp_path / "fine.zarr")
    (unpacked / "sub").mkdir()
    (unpacked / "sub/linked.run").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidInputError, match="a link in this folder leads out of it") as caught:
        import_trec(unpacked, tmp_path / "qrels", tmp_path / "scores.zarr")
    assert "9.9" not in str(caught.value)
    import_trec(unpacked / "sub" / "*", tmp_path / "qrels", tmp_path / "scores.zarr")


def test_pipes_and_devices_are_refused(tmp_path: Path, unpacked: Path) -> None:
    os.mkfifo(unpacked / "pipe.run")
    import_trec(unpacked, tmp_path / "qrels", tmp_path / "fine.zarr")  # what is no file is none of the folder's
    for place in (unpacked / "pipe.run", Path("/dev/zero")):
        with pytest.raises(InvalidInputError, match="this is not a file"):
            import_trec(place, tmp_path / "qrels", tmp_path / "scores.zarr")


@pytest.mark.parametrize("name", ["...npz", "..npz", "__a.npz", "ledger.npz", "zarr.json.npz", "a\nb.npz"])
def test_names_of_files_do_not_lead_out_of_the_store(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.savez(folder / "fine.npz", scores=np.zeros((1, 2)), y=np.array([0, 1]))
    shutil.copy(folder / "fine.npz", folder / name)
    with pytest.raises(InvalidInputError, match="this is not a valid name for a data set"):
        import_arrays([folder / name, folder / "fine.npz"], tmp_path / "scores.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["arrays"]


def test_members_of_an_archive_are_never_unpacked(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"scores": np.zeros((1, 2)), "y": np.array([0, 1]), "../../escaped": np.zeros(2)})  # type: ignore[arg-type]
    (tmp_path / "sub").mkdir()
    import_arrays(tmp_path / "a.npz", tmp_path / "sub/scores.zarr")
    assert not list(tmp_path.rglob("*escaped*"))
    assert not list(tmp_path.parent.glob("*escaped*"))


@pytest.mark.parametrize("options", [{}, {"models": True}, {"exclude": True}])
def test_a_header_of_many_columns_is_checked_in_seconds(tmp_path: Path, options: dict[str, bool]) -> None:
    from aucpr_dask.schema.options import TableOptions
    from aucpr_dask.scores.importing.tables import _choose_models, _matching, open_table

    names = [f"m{number}" for number in range(30_000)]
    (tmp_path / "a.csv").write_text(",".join(["y", *names]) + "\n" + ",".join(["1", *["0.5"] * 30_000]) + "\n")
    started = time.process_time()
    table = open_table(tmp_path / "a.csv", None)
    chosen: dict[str, Any] = dict.fromkeys(options, names[1:])
    models, _ = _choose_models(table, TableOptions(label="y", **chosen))
    assert len(models) == {"exclude": 1, "models": 29_999}.get(next(iter(options), ""), 30_000)
    assert _matching(names, names, "here") == names
    (tmp_path / "b.csv").write_text(",".join([*names, "m7"]) + "\n")
    with pytest.raises(FileFormatError, match="two columns have the same name"):
        open_table(tmp_path / "b.csv", None)
    assert time.process_time() - started < 5


def test_small_files_do_not_grow_into_endless_lines(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 2**20)
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as stream:
        stream.write(b"x" * 2**23)
    assert bomb.stat().st_size < 2**17
    with pytest.raises(FileFormatError, match="the line is too long"):
        import_trec(bomb, tmp_path / "qrels", tmp_path / "scores.zarr")
    with pytest.raises(FileFormatError, match="the line is too long"):
        import_table(bomb, tmp_path / "scores.zarr", label="y")
    (tmp_path / "table.csv").write_text(f"y,forest\n1,{'0' * 2**20}1\n")
    with pytest.raises(FileFormatError, match=r"(?s)the line is too long.*line 2"):
        import_table(tmp_path / "table.csv", tmp_path / "scores.zarr", label="y")


def test_a_header_that_promises_too_much_is_a_clear_error(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)})
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("scores.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    with pytest.raises(AucprError, match="corrupt or truncated"):
        import_arrays(tmp_path / "a.npz", tmp_path / "scores.zarr")
