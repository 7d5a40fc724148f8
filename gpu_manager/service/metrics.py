"""Metrics of a GPU manager, in Prometheus's base units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpu_manager.service.clock import now_ns
from proto.wire import scraping

if TYPE_CHECKING:
    from gpu_manager.service.slices import LiveSlice

_GAPS = (0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05, 0.25, 1.0)


class Metrics(Collector):
    """Counters of what happened, and gauges of what the slices hold when they are asked."""

    def __init__(self) -> None:
        self.slices: list[LiveSlice] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.evictions = Counter(
            "slicewise_gpu_manager_evictions", "Workers that went for others.", ["slice"], registry=self.registry
        )
        self.loads = Counter(
            "slicewise_gpu_manager_loads", "Loads, by outcome.", ["slice", "outcome"], registry=self.registry
        )
        self.load_seconds = Histogram(
            "slicewise_gpu_manager_load_seconds", "From having room asked to ready.", ["slice"], registry=self.registry
        )
        self.turn_seconds = Histogram(
            "slicewise_gpu_manager_turn_seconds", "How long turns occupied the slice.", ["slice"],
            registry=self.registry,
        )  # fmt: skip
        self.gap_seconds = Histogram(
            "slicewise_gpu_manager_turn_gap_seconds",
            "How long a slice computed nothing between two turns though a call waited.",
            ["slice"], buckets=_GAPS, registry=self.registry,
        )  # fmt: skip
        self.calls = Counter(
            "slicewise_gpu_manager_calls", "Model calls of ended turns.", ["slice"], registry=self.registry
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges, one sample a slice."""

        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"slicewise_gpu_manager_{name}", text, labels=["slice"])

        held = gauge("held_bytes", "Bytes charged to the slice's workers, loading ones included.")
        budget = gauge("budget_bytes", "Bytes that the slice may hold.")
        workers = gauge("workers", "Workers on the slice.")
        waiting = gauge("waiting_calls", "Calls that wait for a load or a turn.")
        bindings = gauge("bindings", "Bindings that have not ended.")
        oldest = gauge("oldest_worker_age_seconds", "Age of the worker that has been there for longest.")
        now = now_ns()
        for live in self.slices:
            board = live.core.board
            name = [live.device.spec.id]
            # The scrape runs in a thread of its own while the loop changes the board.
            present = list(board.workers.copy().values())
            held.add_metric(name, sum(worker.charge for worker in present))
            budget.add_metric(name, live.device.spec.memory_bytes)
            workers.add_metric(name, len(present))
            waiting.add_metric(name, sum(call.started_ns < 0 for call in board.calls.copy().values()))
            bindings.add_metric(name, len(board.bindings))
            ages = [now - worker.ready_ns for worker in present if worker.ready_ns]
            oldest.add_metric(name, max(ages, default=0) / 1e9)
        return [held, budget, workers, waiting, bindings, oldest]

    def serve(self, address: str) -> int:
        """Serve /metrics at host:port; the port. Raises SlicewiseError `conflict` if it is taken."""
        return scraping.serve(self.registry, address)
