"""What the cache manager can be told."""

from __future__ import annotations

from proto.wire.settings import ServiceSettings


class CacheManagerSettings(ServiceSettings):
    """The common keys, and where its metrics are served."""

    listen: str = "127.0.0.1:9003"
    metrics_listen: str = ""
    """host:port of an HTTP server for Prometheus; empty for none."""
