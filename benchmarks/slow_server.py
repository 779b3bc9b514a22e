"""A web server of files that answers late and slowly, as an object store does: ``python slow_server.py FOLDER``.

The first part of a path says how: ``/100ms-100MBps/scores.zarr/...`` waits 100 ms, then sends 100 MB a second at most
over each connection. It prints its port.
"""

from __future__ import annotations

import re
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 256 * 1024


class SlowHandler(SimpleHTTPRequestHandler):
    """Serve files late and slowly."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> Any:
        """Wait, then answer."""
        how = re.match(r"/(\d+)ms-(\d+)MBps/", self.path)
        if how is None:
            return self.send_error(404)
        self.path = self.path[how.end() - 1 :]
        self.bytes_per_second = int(how[2]) * 1e6
        time.sleep(int(how[1]) / 1000)
        return super().send_head()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send piece after piece, none before its time."""
        begun, sent = time.perf_counter(), 0
        while piece := source.read(PIECE):
            outputfile.write(piece)
            sent += len(piece)
            time.sleep(max(0.0, begun + sent / self.bytes_per_second - time.perf_counter()))

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SlowHandler, directory=sys.argv[1]))
    print(server.server_port, flush=True)
    server.serve_forever()
