"""Counters under OpenFaaS's own names, and where the seconds of GPU invocations went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.service.entries import Entry

# Go's default buckets: public dashboards of OpenFaaS draw these.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# `rest` is the handler's own work and the hops; the four add up to `total`.
PHASES = ("queue", "load", "infer", "rest", "total")

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What the invocation path counts. `function` is always NAME.NAMESPACE."""

    def __init__(self, entries: Callable[[], Iterable[Entry]]) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "gateway_functions_seconds",
            "Seconds of invocations",
            ["function_name", "code"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._phases = Summary(
            "slicewise_gpu_invocation_seconds",
            "Seconds of GPU invocations by phase; queue, load, infer and rest add up to total",
            ["function_name", "phase"],
            registry=self.registry,
        )
        self.spooled_bytes = Gauge(
            "slicewise_gateway_spooled_bytes", "Bytes of request bodies in files now", registry=self.registry
        )
        self.arrivals = Counter(
            "slicewise_gateway_arrivals",
            "GPU calls that came in while arrivals were recorded, by whether they are in the file",
            ["recorded"],
            registry=self.registry,
        )
        self._observers: dict[tuple[str, str], tuple[Histogram, list[int]]] = {}
        self._phase_observers: dict[str, tuple[Summary, ...]] = {}
        self._started: dict[str, int] = {}
        prometheus_client.PlatformCollector(registry=self.registry)
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(_Functions(self, entries))

    def started(self, function: str) -> None:
        """A call has come in."""
        self._started[function] = self._started.get(function, 0) + 1

    def finished(self, function: str, code: str, seconds: float) -> None:
        """A call has been answered."""
        observer = self._observers.get((function, code))
        if observer is None:
            observer = self._observers[function, code] = (self._seconds.labels(function, code), [0])
        observer[0].observe(seconds)
        observer[1][0] += 1

    def phases(self, function: str, queue_s: float, load_s: float, infer_s: float, total_s: float) -> None:
        """Where a GPU call's seconds went, as its answer says."""
        observers = self._phase_observers.get(function)
        if observers is None:
            observers = tuple(self._phases.labels(function, phase) for phase in PHASES)
            self._phase_observers[function] = observers
        seconds = (queue_s, load_s, infer_s, total_s - queue_s - load_s - infer_s, total_s)
        for observer, value in zip(observers, seconds, strict=True):
            observer.observe(value)

    def invocations(self, function: str) -> float:
        """How many calls of a function were answered since this gateway started."""
        return float(sum(count[0] for (name, _), (_, count) in self._observers.items() if name == function))

    def counts(self) -> Iterator[tuple[str, str, int]]:
        """(function, code, answered calls)."""
        for (function, code), (_, count) in list(self._observers.items()):
            yield function, code, count[0]

    def starts(self) -> Iterator[tuple[str, int]]:
        """(function, calls that came in)."""
        yield from list(self._started.items())


class _Functions(Collector):
    """Series that are read off the live state when somebody asks."""

    def __init__(self, metrics: Metrics, entries: Callable[[], Iterable[Entry]]) -> None:
        self._metrics = metrics
        self._entries = entries

    def collect(self) -> Iterator[Metric]:
        total = Metric("gateway_function_invocation", "Invocations answered", "counter")
        for function, code, count in self._metrics.counts():
            total.add_sample("gateway_function_invocation_total", {"function_name": function, "code": code}, count)
        yield total
        # OpenFaaS's counter has no _total; a family of unknown type keeps its name as it is.
        started = Metric("gateway_function_invocation_started", "Invocations that came in", "unknown")
        for function, count in self._metrics.starts():
            started.add_sample("gateway_function_invocation_started", {"function_name": function}, count)
        yield started
        families = {
            "gateway_service_count": "Replicas wanted",
            "gateway_service_ready_count": "Replicas ready",
            "gateway_invocation_function_invocation_inflight": "Calls in flight",
            "slicewise_gateway_waiting_calls": "Calls that wait for a replica",
        }
        gauges = {name: Metric(name, text, "gauge") for name, text in families.items()}
        for entry in self._entries():
            values = (entry.record.replicas, len(entry.ready), entry.in_flight, entry.waiting)
            for (name, gauge), value in zip(gauges.items(), values, strict=True):
                gauge.add_sample(name, {"function_name": entry.full_name}, value)
        yield from gauges.values()
