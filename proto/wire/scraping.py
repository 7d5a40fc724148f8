"""Where Prometheus reads a service's metrics: an HTTP server in a thread of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from proto.types.errors import SlicewiseError


def serve(registry: CollectorRegistry, address: str) -> int:
    """Serve /metrics at host:port; the port. Raises SlicewiseError `conflict` if it is taken."""
    host, _, port = address.rpartition(":")
    try:
        server, _ = start_http_server(int(port), host or "127.0.0.1", registry)
    except OSError as error:
        raise SlicewiseError("conflict", f"{address} is in use by another process.") from error
    return int(server.server_port)
