"""Metrics of the scheduler, read off the core when they are scraped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from proto.wire import scraping
from scheduler.core.records import RATIOS, Errors
from scheduler.core.slices import status_of
from scheduler.service.desk import Desk
from scheduler.service.pen import Pen

Families = list[Counter | Gauge | Histogram]

_SCRAPE_TIMEOUT_S = 2.0


class Metrics(Collector):
    """The scrape comes in a thread of its own and asks the event loop, where the state lives."""

    def __init__(self, desk: Desk, pen: Pen) -> None:
        self._desk = desk
        self._pen = pen
        self._loop = asyncio.get_running_loop()
        self.registry = CollectorRegistry()

    def serve(self, address: str) -> int:
        """Serve /metrics at host:port; the port. Raises SlicewiseError `conflict` if it is taken."""
        self.registry.register(self)
        return scraping.serve(self.registry, address)

    def describe(self) -> Families:
        """Nothing is known before the loop runs; registering must not ask it."""
        return []

    def collect(self) -> Iterable[Counter | Gauge | Histogram]:
        """All families."""
        if self._loop.is_closed():
            return []
        return asyncio.run_coroutine_threadsafe(self._collect(), self._loop).result(_SCRAPE_TIMEOUT_S)

    async def _collect(self) -> Families:
        return [*self._decisions(), *self._estimates(), *self._queues(), *self._slices()]

    def _decisions(self) -> Families:
        records = self._desk.core.records
        happened = Counter(
            "slicewise_scheduler_invocations", "First turns: the model was on the slice, or was not.", labels=["cache"]
        )
        happened.add_metric(["hit"], records.turned_hits)
        happened.add_metric(["miss"], records.turned_misses)
        placed = Counter("slicewise_scheduler_placements", "Decisions, by what they counted on.", labels=["cache"])
        placed.add_metric(["hit"], records.hits)
        placed.add_metric(["miss"], records.misses)
        false = Counter("slicewise_scheduler_false_misses", "Those misses while another slice held the model.")
        false.add_metric([], records.turned_false_misses)
        local = Counter("slicewise_scheduler_local_placements", "Requests bound behind a busy slice.")
        local.add_metric([], records.local)
        refused = Counter("slicewise_scheduler_refusals", "Requests that got no slice.", labels=["code"])
        for code, count in records.refused.items():
            refused.add_metric([code], count)
        back = Counter("slicewise_scheduler_bindings_taken_back", "Bindings ended before use.", labels=["code"])
        for code, count in records.taken_back.items():
            back.add_metric([code], count)
        return [happened, false, placed, local, refused, back]

    def _estimates(self) -> Families:
        """What turns and loads took, beside what was estimated when they were placed."""
        records = self._desk.core.records
        ratio = Histogram(
            "slicewise_scheduler_estimate_ratio",
            "Measured by estimated time; 1 is a right estimate, more an estimate that was too low.",
            labels=["kind"],
        )
        families: Families = [ratio]
        for kind, errors in (("turn", records.turn), ("load", records.load)):
            buckets = list(zip((*map(floatToGoString, RATIOS), "+Inf"), accumulate(errors.ratios), strict=True))
            ratio.add_metric([kind], buckets, errors.ratio_sum)
            families += _sums(kind, errors)
        return families

    def _queues(self) -> Families:
        core = self._desk.core
        depth = Gauge("slicewise_scheduler_queue_depth", "Requests that wait unbound.")
        depth.add_metric([], core.waiting)
        head, now = core.state.queue.head, self._desk.now()
        age = Gauge("slicewise_scheduler_queue_age_seconds", "How long the oldest of them has waited.")
        age.add_metric([], (now - head.arrived_ns) / 1e9 if head is not None else 0.0)
        bindings = Gauge("slicewise_scheduler_bindings", "Bindings that have not ended.")
        bindings.add_metric([], len(core.ledger))
        hottest = max(self._desk.profiles.workers, key=core.calls_per_s, default="")
        copies = Gauge("slicewise_scheduler_hottest_duplicates", "Slices that hold the most called worker.")
        copies.add_metric([], len(core.state.holders.of(hottest)) if hottest else 0)
        away = Gauge("slicewise_scheduler_etcd_away", "1 while state waits to be written to etcd.")
        away.add_metric([], int(self._pen.failing))
        epoch = Gauge("slicewise_scheduler_epoch", "This leader's epoch.")
        epoch.add_metric([], self._desk.epoch)
        return [depth, age, bindings, copies, away, epoch]

    def _slices(self) -> Families:
        now = self._desk.now()
        busy = Counter("slicewise_slice_busy_seconds", "Time in turns: its rate is the utilisation.", labels=["slice"])
        local = Gauge("slicewise_slice_local_queue", "Bindings that wait at the slice.", labels=["slice"])
        up = Gauge("slicewise_slice_up", "0 while the slice is lost.", labels=["slice"])
        handover = Gauge("slicewise_slice_handover_seconds", "Usual time between two turns.", labels=["slice"])
        for g in self._desk.core.state.slices:
            running_ns = now - g.running.started_ns if g.running is not None else 0
            busy.add_metric([g.id], (g.busy_ns + running_ns) / 1e9)
            local.add_metric([g.id], len(g.waiting))
            up.add_metric([g.id], int(status_of(g) != "lost"))
            handover.add_metric([g.id], g.handover_ns / 1e9)
        return [busy, local, up, handover]


def _sums(kind: str, errors: Errors) -> Families:
    seconds = Counter(
        f"slicewise_scheduler_{kind}_seconds",
        f"{kind.capitalize()}s that ended: their real and their estimated time.",
        labels=["kind"],
    )
    seconds.add_metric(["real"], errors.real_ns / 1e9)
    seconds.add_metric(["estimated"], errors.estimated_ns / 1e9)
    seconds.add_metric(["absolute_error"], errors.error_ns / 1e9)
    number = Counter(f"slicewise_scheduler_{kind}s", f"{kind.capitalize()}s that ended.")
    number.add_metric([], errors.count)
    return [seconds, number]
