"""Metrics of the cache manager, computed when they are scraped."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cache_manager.core.lists import SECOND_NS, Lists
from proto.wire import scraping


class Metrics(Collector):
    """Counters of decisions, and gauges of what the slices hold."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.evicted = Counter("slicewise_evictions", "Workers chosen to go.", registry=self.registry)
        self.refused = Counter(
            "slicewise_admissions_refused", "Admissions without room.", ["code"], registry=self.registry
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges, one sample a slice."""
        age = GaugeMetricFamily(
            "slicewise_cache_oldest_worker_age_seconds",
            "How long the worker that has been on the slice for longest has been there.",
            labels=["slice"],
        )
        held = GaugeMetricFamily("slicewise_cache_held_bytes", "Bytes held by the slice's workers.", labels=["slice"])
        count = GaugeMetricFamily("slicewise_cache_workers", "Workers on the slice.", labels=["slice"])
        now = time.monotonic_ns()
        # A copy: the scrape runs in a thread of its own while reports arrive.
        for known in list(self._lists):
            name = known.state.spec.id
            age.add_metric([name], self._lists.oldest_age_ns(name, now) / SECOND_NS)
            held.add_metric([name], sum(item.held_bytes for item in known.state.workers))
            count.add_metric([name], len(known.state.workers))
        return [age, held, count]

    def serve(self, address: str) -> int:
        """Serve /metrics at host:port; the port. Raises SlicewiseError `conflict` if it is taken."""
        return scraping.serve(self.registry, address)
