"""Servers on loopback for tests: object storage as of S3 and Azure, a proxy that does harm on purpose, static files."""

import base64
import http.client
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

MOTO = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
WSGIRequestHandler.protocol_version = "HTTP/1.1"
WSGIRequestHandler.log_request = lambda *arguments: None
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.port, flush=True)
server.serve_forever()
"""
BUCKET = "bucket"
AZURE_ACCOUNT = "devstoreaccount1"  # with its key, from Azurite's documentation
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def object_server() -> Iterator[int]:
    """Start moto's S3 server as a separate process, with one bucket, and yield its port."""
    with subprocess.Popen([sys.executable, "-c", MOTO], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
            with urllib.request.urlopen(request):
                yield port
        finally:
            process.kill()


@contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """Start Microsoft's Azurite, with one container, and yield the environment that leads to it."""
    from azure.storage.blob import BlobServiceClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]  # the SDK is newer
    command = ["azurite-blob", *options, "--blobPort", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while "successfully listens" not in (line := process.stdout.readline()):
                assert line, "Azurite ended"
            endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
            with BlobServiceClient(endpoint, credential=AZURE_KEY) as service:
                service.create_container(BUCKET)
            yield {
                "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
                "AZURE_STORAGE_ENDPOINT": endpoint,
            }
        finally:
            process.kill()


class Proxy:
    """An HTTP proxy in front of one server: it counts requests, and fails a random share of them.

    The faults: an answer of 500 or 503, an answer that comes late, a connection cut before the request is passed on,
    after it (the server has done what it was asked, and nobody hears of it), or in the middle of the answer.
    """

    FAULTS = ("status 500", "status 503", "slow", "cut before", "cut after", "cut inside")

    def __init__(self, port: int) -> None:
        self.requests: list[tuple[str, str]] = []
        self.injected: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._out_until = 0.0
        self.calm()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(port))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def calm(self) -> None:
        """Do no more harm."""
        self._share = 0.0
        self._outage: tuple[int, float] | None = None
        self._out_until = 0.0

    def harm(self, seed: int, share: float, outage: tuple[int, float] | None = None) -> None:
        """Fail this share of the requests, and from the n-th on, all for some seconds."""
        self._random = np.random.default_rng(seed)
        self.injected.clear()
        self.requests.clear()
        self._share, self._outage = share, outage

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _fault(self, method: str, path: str) -> str | None:
        with self._lock:
            self.requests.append((method, path))
            if self._outage is not None and len(self.requests) >= self._outage[0]:
                self._out_until, self._outage = time.monotonic() + self._outage[1], None
            if time.monotonic() < self._out_until:
                self.injected["outage"] += 1
                return "status 503"
            if not self._share or self._random.random() >= self._share:
                return None
            fault = self.FAULTS[int(self._random.integers(len(self.FAULTS)))]
            self.injected[fault] += 1
            return fault

    def _handler(proxy, port: int) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy._fault(self.command, self.path) or ""
                if fault == "cut before":
                    return self.cut()
                if fault.startswith("status"):
                    return self.answer(int(fault.split()[1]), {}, b"<Error><Code>InternalError</Code></Error>")
                if fault == "slow":
                    time.sleep(0.2)
                connection = http.client.HTTPConnection("127.0.0.1", port)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    status, headers, content = response.status, dict(response.getheaders()), response.read()
                finally:
                    connection.close()
                if fault == "cut after":
                    return self.cut()
                self.answer(status, headers, content, cut_inside=fault == "cut inside")
                return None

            def answer(self, status: int, headers: dict[str, str], content: bytes, *, cut_inside: bool = False) -> None:
                self.send_response_only(status)
                hop_by_hop = ("connection", "content-length", "transfer-encoding", "keep-alive")
                for name, value in headers.items():
                    if name.lower() not in hop_by_hop:
                        self.send_header(name, value)
                length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
                if status != 204:
                    self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[: len(content) // 2] if cut_inside else content)
                if cut_inside:
                    self.cut()

            def cut(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *arguments: Any) -> None:
                pass

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        return Handler


@contextmanager
def static_server(folder: Path, *, user: str = "", signature: str = "") -> Iterator[tuple[str, list[str]]]:
    """Serve the files of a folder as a plain web server does, without lists of what there is.

    Yields the address and the requests; may require a user with a password, or a signature in the query.
    """
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            asked.append(self.path)
            expected = "Basic " + base64.b64encode(user.encode()).decode()
            if (user and self.headers.get("Authorization") != expected) or (
                signature and parse_qs(urlsplit(self.path).query).get("X-Amz-Signature") != [signature]
            ):
                self.send_error(401)
            else:
                super().do_GET()

        def list_directory(self, path: Any) -> None:
            self.send_error(403)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
