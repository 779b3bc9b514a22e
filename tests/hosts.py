"""Several hosts on one machine: network namespaces, each connected to a common switch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

COMMANDS_MAY_TAKE = 30  # seconds


class NotPermitted(Exception):
    """This machine does not let its user make namespaces."""


@dataclass(frozen=True)
class Host:
    """A network namespace with one address."""

    namespace: str
    address: str
    switch: str
    port: str  # of the switch, where the cable of this host ends

    def command(self, *command: str) -> list[str]:
        """Return a command as it is run on this host."""
        return ["ip", "netns", "exec", self.namespace, *command]

    @contextmanager
    def running(self, *command: str, log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program on this host, and kill what is left of it at the end."""
        with log.open("ab") as output:
            process = subprocess.Popen(self.command(*command), stdout=output, stderr=output, **options)
            try:
                yield process
            finally:
                self.kill_everything()
                process.wait(COMMANDS_MAY_TAKE)

    def pull_the_cable(self) -> None:
        """Cut this host off: packets are dropped silently."""
        _run("ip", "-n", self.switch, "link", "set", self.port, "down")

    def kill_everything(self) -> None:
        """End all processes of this host at once."""
        pids = _run("ip", "netns", "pids", self.namespace).split()
        if pids:
            subprocess.run(["kill", "-KILL", *pids], check=False, capture_output=True)


@contextmanager
def joined_hosts(n: int) -> Iterator[Sequence[Host]]:
    """Make hosts that reach each other and nothing else, and take them away again."""
    site = uuid4().hex[:8]
    switch = f"aucpr-{site}-switch"
    hosts = [Host(f"aucpr-{site}-{i}", f"10.77.0.{i + 1}", switch, f"port{i}") for i in range(n)]
    with ExitStack() as cleaning:
        for namespace in (switch, *(host.namespace for host in hosts)):
            _run("ip", "netns", "add", namespace)
            cleaning.callback(_run, "ip", "netns", "delete", namespace)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        for host in hosts:
            cable = ("type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            _run("ip", "-n", switch, "link", "add", host.port, *cable)
            _run("ip", "-n", switch, "link", "set", host.port, "master", "bridge", "up")
            _run("ip", "-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            _run("ip", "-n", host.namespace, "link", "set", "eth0", "up")
        yield hosts


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMANDS_MAY_TAKE)
    except FileNotFoundError as error:
        raise NotPermitted(f"there is no program {command[0]!r}") from error
    if done.returncode:
        raise NotPermitted(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
