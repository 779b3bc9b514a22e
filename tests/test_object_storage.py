"""Stores elsewhere: a real server of the S3 protocol, a web server, credentials, secrets, and servers that fail."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled, queried
from distributed import Client, LocalCluster
from object_servers import BUCKET, Proxy, azure_server, object_server, static_server
from test_resume import Stop, stop_after
from test_run import assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import InvalidInputError, RunError, StoreError, UnreachableError
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.storage.backends import get_value, open_backend
from aucpr_dask.storage.urls import absolute, overlap

KEY, SECRET = "AKIAOFTHETESTS", "swordfish-of-the-tests"
FEW: dict[str, Any] = {"interval": ()}  # few variables: few requests
OPTIONS: dict[str, Any] = {"estimator": ["average_precision", "continuous"], "interval": ["logit"]}


server = pytest.mark.needs("moto", "obstore", "boto3")


pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture(scope="module")
def storage() -> Iterator[Proxy]:
    """An S3 server behind a proxy, named by the environment, as AWS's own tools want it."""
    with object_server() as port, pytest.MonkeyPatch.context() as patch:
        proxy = Proxy(port)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        yield proxy
        proxy.close()


@pytest.fixture(scope="module")
def client(storage: Proxy) -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def folder(storage: Proxy, request: pytest.FixtureRequest) -> str:
    """A new folder for each test."""
    storage.calm()
    storage.requests.clear()
    return f"s3://{BUCKET}/{re.sub('[^a-z0-9]+', '-', request.node.name)}"


def keys_of(url: str) -> list[str]:
    from zarr.core.sync import sync

    async def listed() -> list[str]:
        return sorted([key async for key in open_backend(url, read_only=True).list_prefix("")])

    return sync(listed())


def values_of(url: str) -> list[bytes]:
    backend = open_backend(url, read_only=True)
    values = [get_value(backend, key) for key in keys_of(url)]
    return [value.to_bytes() for value in values if value is not None]


# Names of places


def test_places_that_overlap(tmp_path: Path) -> None:
    one = absolute("s3://bucket/a/")
    assert one == absolute("S3://bucket/a") == absolute("s3://bucket/a//")
    assert not overlap(one, absolute("s3://bucket/ab"))
    assert not overlap(one, absolute("s3://other/a"))
    assert not overlap(one, absolute("gs://bucket/a"))
    assert overlap(one, absolute("s3://bucket/a/result.zarr/"))
    assert overlap(absolute("s3://bucket"), one)
    assert overlap(absolute(f"file://{tmp_path}/a"), absolute(tmp_path / "a" / "b"))


def test_a_local_path_as_a_url(tmp_path: Path) -> None:
    ap.save_scores(pooled(), f"file://{tmp_path}/my%20scores.zarr/")
    assert ap.open_scores(tmp_path / "my scores.zarr").sizes["model"] == 5


# Round trips


@server
def test_scores_come_back(folder: str, forest: xr.DataTree) -> None:
    for number, scores in enumerate((pooled(9), queried(), forest)):
        url = f"{folder}/{number}/scores.zarr/"
        ap.save_scores(scores, url)
        opened = ap.open_scores(url)
        assert_same_bits(ap.evaluate(opened), ap.evaluate(scores))
        assert keys_of(url).count("zarr.json") == 1


@pytest.mark.parametrize("scheme", ["memory"])
def test_other_schemes_go_through_fsspec(scheme: str) -> None:
    ap.save_scores(pooled(), f"{scheme}://box/scores.zarr")
    assert_same_bits(ap.evaluate(ap.open_scores(f"{scheme}://box/scores.zarr")), ap.evaluate(pooled()))


@server
def test_an_unfinished_store_does_not_open(folder: str) -> None:
    def stop(done: int, total: int) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        ap.save_scores(pooled(9), folder, on_progress=stop)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_scores(folder)
    with pytest.raises(StoreError, match="no store"):
        ap.open_scores(f"{folder}-of-others")
    with pytest.raises(StoreError, match="something at this place"):
        ap.save_scores(pooled(), folder)
    ap.save_scores(pooled(), folder, overwrite=True)
    assert ap.open_scores(folder).sizes["model"] == 5


@server
def test_replacing_a_store_leaves_its_neighbours(folder: str) -> None:
    for name in ("a", "ab", "a/b"):
        ap.save_scores(pooled(), f"{folder}/{name}")
    before = keys_of(f"{folder}/ab")
    ap.save_scores(pooled(3), f"{folder}/a/b/", overwrite=True)
    assert ap.open_scores(f"{folder}/a").sizes["model"] == 5
    ap.save_scores(pooled(3), f"{folder}/a", overwrite=True)
    assert keys_of(f"{folder}/ab") == before
    assert ap.open_scores(f"{folder}/ab").sizes["model"] == 5


@server
def test_other_things_are_never_replaced(folder: str, storage: Proxy) -> None:
    import boto3

    precious = {"Bucket": BUCKET, "Key": folder.removeprefix(f"s3://{BUCKET}/") + "/thesis/chapter.tex"}
    boto3.client("s3").put_object(Body=b"years of work", **precious)
    ap.save_scores(pooled(), f"{folder}/scores.zarr")
    for url in (folder, f"{folder}/thesis"):
        with pytest.raises(StoreError, match="this package did not write"):
            ap.save_scores(pooled(), url, overwrite=True)
    assert boto3.client("s3").get_object(**precious)["Body"].read() == b"years of work"


@server
def test_a_result_may_not_replace_its_scores(folder: str) -> None:
    ap.save_scores(pooled(), folder)
    for target in (f"{folder}/", f"{folder}/result.zarr", f"s3://{BUCKET}"):
        with pytest.raises(StoreError, match="the result and the scores would overlap"):
            ap.run(folder, target, overwrite=True)
    with pytest.raises(StoreError, match="still read from it"):
        ap.save_scores(ap.open_scores(folder), f"{folder}/", overwrite=True)


@server
def test_few_requests(folder: str, storage: Proxy) -> None:
    """Nothing is listed or looked for that is known; what is removed is removed together."""
    scores = queried(11, 5, 40)

    def requests_of(what: Any) -> Counter[str]:
        storage.requests.clear()
        what()
        return Counter(method for method, _ in storage.requests)

    written = requests_of(lambda: ap.save_scores(scores, folder))
    n_objects = len(keys_of(folder))
    blocks = len([key for key in keys_of(folder) if key.startswith("score/c/")])
    assert written["PUT"] == n_objects + 1  # the claim
    assert sum(written.values()) <= n_objects + blocks + 12, "the claim is compared before each block is written"
    assert requests_of(lambda: ap.open_scores(folder)) == {"GET": 1 + 4}  # the root document; what is small
    opened = ap.open_scores(folder)
    assert requests_of(lambda: ap.evaluate(opened).compute(scheduler="sync")) == {"GET": blocks}
    replaced = requests_of(lambda: ap.save_scores(scores, folder, overwrite=True))
    assert sum(replaced.values()) <= n_objects + blocks + 17, "also a look whether this package wrote what is there"


# Credentials


@server
def test_credentials_of_a_profile(folder: str, storage: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, region and endpoint from ~/.aws, by the name of a profile."""
    ap.save_scores(pooled(), folder)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    (tmp_path / "config").write_text(f"[profile lab]\nregion = eu-north-1\nendpoint_url = {storage.url}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    opened = ap.open_scores(folder)
    assert_same_bits(ap.evaluate(opened), ap.evaluate(pooled()))
    pickled = pickle.dumps(opened)
    assert KEY.encode() not in pickled
    assert SECRET.encode() not in pickled
    assert_same_bits(ap.evaluate(pickle.loads(pickled)), ap.evaluate(pooled()))


@server
def test_without_credentials_public_data_are_read(
    folder: str, storage: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    ap.save_scores(pooled(), folder)
    for key in keys_of(folder):
        place = {"Bucket": BUCKET, "Key": f"{folder.removeprefix(f's3://{BUCKET}/')}/{key}"}
        boto3.client("s3").put_object_acl(ACL="public-read", **place)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    opened = ap.open_scores(folder)
    assert_same_bits(ap.evaluate(opened), ap.evaluate(pooled()))


@server
def test_keys_in_a_url_are_refused(folder: str) -> None:
    for url in (
        f"s3://{KEY}:{SECRET}@{BUCKET}/a",
        f"{folder}?X-Amz-Signature={SECRET}",
    ):
        with pytest.raises(StoreError, match="cannot carry a password") as caught:
            ap.open_scores(url)
        assert SECRET not in str(caught.value)
        with pytest.raises(StoreError):
            ap.save_scores(pooled(), url)


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StoreError, match=re.escape('pip install "aucpr-dask[remote]"')):
        ap.open_scores(f"s3://{BUCKET}/scores.zarr")


def test_an_unknown_scheme() -> None:
    with pytest.raises(StoreError, match="of no use"):
        ap.open_scores("nonsense://bucket/scores.zarr")


# Web servers


@pytest.mark.needs("obstore")
@pytest.mark.parametrize("kind", ["open", "password", "signature"])
def test_a_web_server_without_lists(tmp_path: Path, forest: xr.DataTree, kind: str) -> None:
    ap.save_scores(forest, tmp_path / "scores.zarr")
    with static_server(
        tmp_path, user=f"ann:{SECRET}" if kind == "password" else "", signature=SECRET if kind == "signature" else ""
    ) as (address, asked):
        url = {
            "open": f"http://{address}/scores.zarr/",
            "password": f"http://ann:{SECRET}@{address}/scores.zarr",
            "signature": f"http://{address}/scores.zarr?X-Amz-Date=1&X-Amz-Signature={SECRET}",
        }[kind]
        opened = ap.open_scores(url)
        assert_same_bits(ap.evaluate(opened), ap.evaluate(forest))
        assert SECRET not in repr(opened["small"].encoding) + str(opened.attrs)
        assert all("zarr.json" in path or "/c" in path for path in asked)
        asked.clear()
        with pytest.raises(StoreError, match="no store at this place") as caught:
            ap.open_scores(url.replace("scores.zarr", "other.zarr"))
        assert SECRET not in str(caught.value)
        for write in (lambda: ap.save_scores(pooled(), url), lambda: ap.run(tmp_path / "scores.zarr", url)):
            with pytest.raises(StoreError, match="can only be read") as caught:
                write()
            assert SECRET not in str(caught.value)


@pytest.mark.needs("obstore")
@pytest.mark.filterwarnings("ignore:.*Consolidated metadata", "ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_another_program_wrote_on_a_web_server(tmp_path: Path, zarr_format: Any) -> None:
    pooled(3).drop_encoding().to_zarr(tmp_path / "archive.zarr", zarr_format=zarr_format, consolidated=True)
    with static_server(tmp_path) as (address, _):
        place = f"http://{address}/archive.zarr"
        assert_same_bits(ap.run(place, tmp_path / "result.zarr", **OPTIONS), ap.evaluate(pooled(3), **OPTIONS))
        verified = CliRunner().invoke(main, ["verify", place])
        assert "4 chunks can be decoded" in verified.output


@pytest.mark.needs("obstore")
def test_a_web_server_that_refuses(tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    with static_server(tmp_path, user="ann:other") as (address, _):
        for url in (f"http://ann:{SECRET}@{address}/scores.zarr", f"http://{address}/scores.zarr?sig={SECRET}"):
            with pytest.raises(UnreachableError, match="401") as caught:
                ap.open_scores(url)
            assert SECRET not in "".join(
                map(str, (caught.value, caught.value.__cause__, caught.getrepr(style="short")))
            )


@server
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_what_another_program_wrote_is_run_where_it_lies(folder: str, storage: Proxy, tmp_path: Path) -> None:
    scores, place = pooled(3).chunk(model=1), f"{folder}/archive.zarr"
    backend: Any = open_backend(place)
    scores.drop_encoding().to_zarr(backend, consolidated=False)

    def disturb(_: object) -> None:
        pooled(3, seed=2)[["score"]].drop_vars(["model", "item"]).to_zarr(backend, mode="r+", consolidated=False)

    with pytest.raises(ap.errors.SourceChangedError, match="while this run read them"):
        ap.run(place, tmp_path / "other.zarr", on_progress=disturb)
    pooled(3)[["score"]].drop_vars(["model", "item"]).to_zarr(backend, mode="r+", consolidated=False)
    result = ap.run(place, f"{folder}/result.zarr", **OPTIONS)
    assert_same_bits(result, ap.evaluate(pooled(3), **OPTIONS))
    storage.requests.clear()
    assert ap.run(place, f"{folder}/result.zarr", **OPTIONS).identical(result)
    assert not any("archive.zarr/score/c" in key for _, key in storage.requests)  # listed, not read


@server
def test_files_from_elsewhere_are_imported(folder: str, storage: Proxy, tmp_path: Path) -> None:
    table = "y,m1,m2\n" + "".join(f"{i % 2},{i / 7},{-i / 3}\n" for i in range(20))
    (tmp_path / "table.csv").write_text(table)
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n1 0 d2 0\n")
    (tmp_path / "system.run").write_text("1 Q0 d1 1 0.5 x\n1 Q0 d2 2 0.4 x\n")
    from aucpr_dask.scores.importing.tables import import_table
    from aucpr_dask.scores.importing.trec import import_trec

    with static_server(tmp_path, user=f"ann:{SECRET}") as (address, _):
        web = f"http://ann:{SECRET}@{address}"
        import_table(f"{web}/table.csv?signature={SECRET}", f"{folder}/table.zarr", label="y")
        import_trec([f"{web}/system.run"], f"{web}/qrels.txt", f"{folder}/trec.zarr")
        with pytest.raises(StoreError, match="no file at this place") as caught:
            import_table(f"{web}/absent.csv", f"{folder}/absent.zarr", label="y")
        assert SECRET not in str(caught.value)
    assert list(ap.open_scores(f"{folder}/table.zarr")["model"].values) == ["m1", "m2"]
    assert list(ap.open_scores(f"{folder}/trec.zarr")["model"].values) == ["system"]
    backend = open_backend(folder)
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(backend.set("table.csv", default_buffer_prototype().buffer.from_bytes(table.encode())))
    import_table(f"{folder}/table.csv", f"{folder}/again.zarr", label="y")
    assert ap.open_scores(f"{folder}/again.zarr").sizes["item"] == 20
    with pytest.raises(InvalidInputError):
        import_table([], f"{folder}/none.zarr", label="y")


# Runs


@server
@pytest.mark.usefixtures("few_calls_in_flight")
def test_the_life_of_a_result(client: Client, folder: str, storage: Proxy) -> None:
    """Begun, stopped, gone on with, finished, extended, replaced; and how much is asked of the server."""
    source, target = f"{folder}/scores.zarr", f"{folder}/result.zarr"
    scores = queried(11, 5, 40)
    ap.save_scores(scores.isel(model=slice(8)), source)
    with pytest.raises(Stop):
        ap.run(source, target, workers=client, on_progress=stop_after(2), **OPTIONS)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_result(target)
    total = len(plan_run(source, **OPTIONS).tasks)
    client.gather([client.submit(abs, -1, workers=[address], pure=False) for address in client.nthreads()])
    done = len(Ledger(str(target)).done())
    assert 2 <= done < total
    events: list[Any] = []
    result = ap.run(source, f"{target}/", workers=client, on_progress=events.append, **OPTIONS)
    assert_same_bits(result, ap.evaluate(scores.isel(model=slice(8)), **OPTIONS))
    assert events[-1].tasks_done == total
    storage.requests.clear()
    ap.run(source, target, workers=client, on_progress=stop_after(0), **OPTIONS)
    assert {method for method, _ in storage.requests} <= {"GET", "HEAD"}  # the source is looked at, nothing is written
    with pytest.raises(StoreError, match=r"level: 0\.95, now 0\.5"):
        ap.run(source, target, workers=client, level=0.5, **OPTIONS)
    ap.save_scores(scores, source, overwrite=True)
    assert_same_bits(ap.run(source, target, workers=client, **OPTIONS), ap.evaluate(scores, **OPTIONS))
    storage.requests.clear()
    result = ap.run(source, target, workers=client, overwrite=True, **OPTIONS)
    assert_same_bits(result, ap.evaluate(scores, **OPTIONS))
    n_blocks = len(plan_run(source, **OPTIONS).tasks)
    counts = Counter(_kind_of_request(*request, set(result.data_vars)) for request in storage.requests)
    print(f"\nrequests of a run of {n_blocks} blocks: {dict(counts)}")
    assert counts["read a chunk"] == n_blocks
    assert counts["record a block"] == 2 * n_blocks  # written, and read once to compare the list of checksums with it
    assert counts["look whose result it is"] <= 3 * n_blocks + 10
    assert counts["write a chunk"] + counts["delete"] <= len(result.data_vars) * n_blocks + 15  # no chunk of zeros
    # Once for the list of checksums, if another process has written them, and once to compare the bits.
    assert counts["read a result"] <= 2 * counts["write a chunk"] + 15
    assert counts["else"] < 220  # metadata, labels, plan and ledger, by three processes; however many blocks there are


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("azurite-blob") is None, reason="Azurite is not here: npm install -g azurite")
def test_the_life_of_a_result_in_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun, stopped, gone on with, extended, replaced: with credentials from the environment, which none may keep."""
    source, target = f"az://{BUCKET}/scores.zarr", f"az://{BUCKET}/deep/result.zarr"
    scores = queried(11, 5, 40)
    with azure_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreError, match="there is no store at this place"):
            ap.open_scores(source)
        ap.save_scores(scores.isel(model=slice(8)), source)
        with ap.connect(2) as client:
            with pytest.raises(Stop):
                ap.run(source, target, workers=client, on_progress=stop_after(2), **OPTIONS)
            with pytest.raises(StoreError, match="never finished"):
                ap.open_result(target)
            result = ap.run(source, target, workers=client, **OPTIONS)
            assert_same_bits(result, ap.evaluate(scores.isel(model=slice(8)), **OPTIONS))
            assert result.attrs["source"] == source
            ap.save_scores(scores, source, overwrite=True)
            assert_same_bits(ap.run(source, target, workers=client, **OPTIONS), ap.evaluate(scores, **OPTIONS))
            result = ap.run(source, target, workers=client, overwrite=True, **FEW)
            assert_same_bits(result, ap.evaluate(scores, **FEW))
        secret = environment["AZURE_STORAGE_ACCOUNT_KEY"].encode()
        assert any(b"az://" in value for value in values_of(target))
        assert not any(secret in value for value in values_of(target))
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c3dvcmRmaXNo")
        with pytest.raises(UnreachableError, match="403") as refused:
            ap.open_scores(source)
        assert "c3dvcmRmaXNo" not in str(refused.value)


@pytest.mark.slow
def test_an_expired_token_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>ExpiredToken</Code><Message>secret-text</Message></Error>"
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "swordfish",
        "AWS_SESSION_TOKEN": "old-token",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnreachableError, match=r"400 Bad Request, ExpiredToken") as refused:
        ap.open_scores("s3://bucket/scores.zarr")
    server.shutdown()
    server.server_close()
    assert "check the address, the credentials" in str(refused.value)
    assert not any(word in str(refused.value) for word in ("swordfish", "old-token", "secret-text"))


def _kind_of_request(method: str, path: str, variables: set[Any]) -> str:
    """Say what a request of a run is for."""
    _, _, name, *rest = [*path.partition("?")[0].strip("/").split("/")[1:], "", "", ""]
    if name == "score":
        return "read a chunk" if "c" in rest else "else"
    if name == "ledger":
        return {"state.json": "look whose result it is", "done": "record a block"}.get(rest[0], "else")
    if name in variables and "c" in rest and method in ("PUT", "GET"):
        return "write a chunk" if method == "PUT" else "read a result"
    return "delete" if method == "POST" else "else"


KILLED = """
import sys
import aucpr_dask as ap
import aucpr_dask.storage.stores
if __name__ == "__main__":
    aucpr_dask.storage.stores.CHUNK_BYTES = 2000
    ap.run(sys.argv[1], sys.argv[2], workers=2, on_progress=lambda event: print(event.tasks_done, flush=True),
           estimator=["average_precision", "continuous"], interval=["logit"])
"""


def kill_after(n_blocks: int, source: str, target: str) -> None:
    """Run in a separate process group, and kill all of it, workers included, in the middle."""
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", KILLED, source, target], start_new_session=True, **options) as process:
        for line in process.stdout or ():
            if int(line) >= n_blocks:
                break
        os.killpg(process.pid, signal.SIGKILL)


@server
def test_a_killed_run_resumes(client: Client, folder: str) -> None:
    source, target = f"{folder}/scores.zarr", f"{folder}/result.zarr"
    ap.save_scores(queried(11, 5, 40), source)
    kill_after(2, source, target)
    with pytest.raises(StoreError, match="never finished"):
        ap.open_result(target)
    assert len(Ledger(str(target)).done()) >= 2
    assert_same_bits(ap.run(source, target, workers=client, **OPTIONS), ap.evaluate(queried(11, 5, 40), **OPTIONS))


@server
@pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # few positives
def test_the_commands(client: Client, folder: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = (f"{i % 3 == 0:d},{rng.random()},{rng.random()}" for i in range(60))
    (tmp_path / "table.csv").write_text("\n".join(["y,m1,m2", *rows]))
    source, result = f"{folder}/scores.zarr", f"{folder}/result.zarr"
    evaluate = ["evaluate", source, result, "--workers", client.scheduler.address]
    evaluate += ["--interval", "bootstrap", "--n-resamples", "50", "--keep-replicates"]
    for words in (
        ["import", "table", str(tmp_path / "table.csv"), source, "--label", "y"],
        ["info", source],
        ["plan", source],
        evaluate,
        evaluate,
        ["info", result],
        ["show", result],
        ["compare", result, "--over", "items", "--method", "bootstrap", "--output", f"{folder}/comparison.zarr"],
        ["info", f"{folder}/comparison.zarr"],
    ):
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code == 0, (words, answer.output, answer.exception)
        assert SECRET not in answer.output
    refused = CliRunner().invoke(main, ["evaluate", source, result, "--level", "0.5"])
    assert refused.exit_code == 2
    assert "level" in refused.output


@server
def test_no_secret_is_written_anywhere(client: Client, folder: str, tmp_path: Path) -> None:
    """Scores behind a password and a signature: neither is in the result, its ledger, what is printed or the logs."""
    ap.save_scores(queried(5, 3, 40), tmp_path / "scores.zarr")
    (tmp_path / "sick").mkdir()
    ap.save_scores(queried(5, 3, 40), tmp_path / "sick" / "scores.zarr")
    chunk = next(path for path in (tmp_path / "sick/scores.zarr/score/c").rglob("*") if path.is_file())
    chunk.write_bytes(b"no chunk at all")
    words = ["--workers", client.scheduler.address, "--json"]
    code = "import sys; from aucpr_dask.cli import main; main(sys.argv[1:])"
    said = b""
    with static_server(tmp_path, user=f"ann:{SECRET}", signature=f"{SECRET}-2") as (address, _):
        query = f"?X-Amz-Date=1&X-Amz-Signature={SECRET}-2"
        for name, fails in (("scores.zarr", False), ("sick/scores.zarr", True), ("absent.zarr", True)):
            url = f"http://ann:{SECRET}@{address}/{name}{query}"
            place = tmp_path / f"{name.replace('/', '-')}-result.zarr"
            command = [sys.executable, "-c", code, "evaluate", url, str(place), *words]
            done = subprocess.run(
                command, capture_output=True, check=False, env=os.environ | {"PYTHONWARNINGS": "default"}
            )
            assert bool(done.returncode) == fails, done.stderr.decode()
            said += done.stdout + done.stderr
        on_s3 = f"{folder}/result.zarr"
        source = f"http://ann:{SECRET}@{address}/scores.zarr{query}"
        result = ap.run(source, on_s3, workers=client)
        assert_same_bits(result, ap.evaluate(queried(5, 3, 40)))
        said += repr(client.get_worker_logs()).encode() + repr(client.get_scheduler_logs()).encode()
        said += repr(plan_run(source)).encode()
    assert result.attrs["source"] == f"http://{address}/scores.zarr"
    assert f'"source": "http://{address}/scores.zarr'.encode() in said
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    written += values_of(on_s3)
    assert any(b"http://" in content for content in written)
    for secret in (SECRET, KEY):
        assert secret.encode() not in said
        assert not any(secret.encode() in content for content in written)


# Servers that fail


@server
@pytest.mark.parametrize("n_patterns", [6, pytest.param(20, marks=pytest.mark.nightly)])
def test_patterns_of_faults(
    client: Client, folder: str, storage: Proxy, n_patterns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run ends with the bits of a run left in peace, at once or when the same call is given again."""
    scores = queried(4, 3, 40)
    source = f"{folder}/scores.zarr"
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    ap.save_scores(scores, source)
    expected = ap.evaluate(scores, **FEW)
    n_blocks = len(plan_run(source, **FEW).tasks)
    random = np.random.default_rng(5)
    injected: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    recorded = 0
    for pattern in range(n_patterns):
        target = f"{folder}/result-{pattern}.zarr"
        share = float(random.choice([0.02, 0.05, 0.1, 0.2]))
        outages = {n_patterns // 3: (40, 4.0), n_patterns - 2: (120, 4.0)}
        storage.harm(pattern, share, outages.get(pattern))
        result, end = _run_until_it_ends(source, target, client, storage)
        storage.calm()
        ends[end] += 1
        injected += storage.injected
        recorded += sum(method == "PUT" and "/ledger/done/" in path for method, path in storage.requests)
        assert_same_bits(result, expected)
        assert_same_bits(ap.open_result(target), expected)
    print(f"\nfaults injected: {sum(injected.values())} {dict(injected)}")
    print(f"{n_patterns} runs: {dict(ends)}")
    print(f"blocks: {n_patterns * n_blocks} in all, recorded {recorded} times")
    assert sum(ends.values()) == n_patterns
    assert ends["at once"] >= {6: 4, 20: 15}[n_patterns]
    assert sum(injected.values()) > 7.5 * n_patterns
    assert {*Proxy.FAULTS, "outage"} <= set(injected)


def _run_until_it_ends(source: str, target: str, client: Client, storage: Proxy) -> tuple[Any, str]:
    """Run; if that fails, do what the error says."""
    try:
        return ap.run(source, target, workers=client, **FEW), "at once"
    except (StoreError, RunError) as error:
        said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert re.search("same c(all|ommand)", said)
    storage.calm()
    try:
        return ap.run(source, target, workers=client, **FEW), "when the same call was given again"
    except StoreError as error:
        said = str(error)
    assert "overwrite=True" in said  # it was stopped before there was a ledger
    return ap.run(source, target, workers=client, overwrite=True, **FEW), "after a new start"


@server
def test_a_server_that_is_not_there(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(UnreachableError, match="cannot be read") as caught:
        ap.open_scores(folder)
    assert "Debug source" not in str(caught.value)
    assert time.monotonic() - started < 30
