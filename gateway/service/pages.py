"""One page of metrics for a platform on one machine: the gateway's own families and those of the other services.

Where each service is a scrape target of its own, as on Kubernetes, none is named and this page is the gateway's.
Families that several services have (two GPU managers) become one, as Prometheus wants a page to be.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)

# A scrape has ten seconds by default and comes every fifteen; a service that takes longer is missing once.
_TIMEOUT_S = 1.0
_MAX_PAGE_BYTES = 16 << 20


class Pages:
    """`others` maps a service's name to the URL of its page; `own` is the gateway's registry."""

    def __init__(self, own: CollectorRegistry, others: Mapping[str, str]) -> None:
        self._own = own
        self._others = dict(others)

    async def render(self) -> bytes:
        """Everything that answers in time; the gauge `slicewise_metrics_page_up` tells what did not."""
        if not self._others:
            return generate_latest(self._own)
        texts = await asyncio.gather(*(asyncio.to_thread(_fetch, url) for url in self._others.values()))
        return await asyncio.to_thread(self._render, dict(zip(self._others, texts, strict=True)))

    def _render(self, texts: Mapping[str, str]) -> bytes:
        up = GaugeMetricFamily("slicewise_metrics_page_up", "1 if the service's metrics are here.", labels=["page"])
        families = _Families(self._own.collect())
        for name, text in texts.items():
            try:
                families.add(text_string_to_metric_families(text) if text else ())
            except ValueError as error:
                _log.warning("the metrics of %s cannot be read: %s", name, error)
                text = ""
            up.add_metric([name], float(bool(text)))
        families.add([up])
        merged = CollectorRegistry()
        merged.register(families)
        return generate_latest(merged)


class _Families(Collector):
    def __init__(self, first: Iterable[Metric]) -> None:
        self._by_name: dict[str, Metric] = {}
        self.add(first)

    def add(self, families: Iterable[Metric]) -> None:
        for family in families:
            known = self._by_name.setdefault(family.name, family)
            if known is not family and known.type == family.type:
                known.samples.extend(family.samples)

    def collect(self) -> Iterator[Metric]:
        yield from self._by_name.values()

    def describe(self) -> list[Metric]:
        return []


def _fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return str(answer.read(_MAX_PAGE_BYTES).decode())
    except (OSError, ValueError, http.client.HTTPException) as error:
        _log.info("no metrics from %s: %s", url, error)
        return ""
