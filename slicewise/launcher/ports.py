"""Addresses of the platform's own services: chosen once, kept, so that restarts keep them."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping

from proto.types.errors import SlicewiseError

# Below the range from which the kernel takes ports of outgoing connections (32768 and up): a port
# of ours must not be somebody's while its service restarts.
_FIRST, _LAST = 20_000, 32_000
_ATTEMPTS = 200


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


class Ports:
    """What one launcher has reserved. Every launcher reserves before it looks, so that no two take one port.

    A reservation is an abstract socket named after the port: the kernel keeps those apart as it does
    ports, by network namespace, whoever the users are, and takes one back when its holder dies.
    """

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source or random.Random()
        self._held: dict[int, socket.socket] = {}

    def choose(self, names: Iterable[str], kept: Mapping[str, int]) -> dict[str, int]:
        """A port on loopback for each name: the one it had if that is still free, else another.

        Raises SlicewiseError `conflict` when none is found.
        """
        chosen: dict[str, int] = {}
        for name in names:
            port = kept.get(name, 0)
            attempts = 0
            while not port or not self._take("127.0.0.1", port):
                attempts += 1
                if attempts > _ATTEMPTS:
                    raise SlicewiseError("conflict", f"No free port between {_FIRST} and {_LAST} was found for {name}.")
                port = self._source.randint(_FIRST, _LAST)
            chosen[name] = port
        return chosen

    def claim(self, what: str, host: str, port: int, kept: int, flag: str) -> int:
        """The port asked for (0: the one it had, or any free one); raises SlicewiseError `conflict` if it is taken."""
        if port == 0:
            return self.choose([what], {what: kept})[what]
        if not self._take(host, port):
            raise SlicewiseError(
                "conflict",
                f"{host}:{port} is in use by another process, perhaps another Slicewise; "
                f"choose another port for the {what} with {flag}.",
            )
        return port

    def release(self) -> None:
        """Give all of them back; only after every service has ended."""
        for reservation in self._held.values():
            reservation.close()
        self._held.clear()

    def _take(self, host: str, port: int) -> bool:
        """Reserve a port that is free; False if it is not, or reserved, by ourselves too."""
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # not inherited by what the launcher starts
        try:
            reservation.bind(f"\0slicewise-port-{port}")
        except OSError:
            reservation.close()
            return False
        if not is_free(host, port):
            reservation.close()
            return False
        self._held[port] = reservation
        return True
