"""A scenario's tables as the estimates that the scheduler asks for, and what really happens: those with noise."""

from __future__ import annotations

import math
from collections import Counter

from proto.wire.fields import bad
from simulator.scenario import Scenario


class ScenarioEstimates:
    """Exact profiles (`scheduler.core.estimates.Estimates`); preloaded models load in no time and take no room."""

    def __init__(self, scenario: Scenario) -> None:
        self._models = scenario.models
        self._preloaded = scenario.preloaded
        self._requests = scenario.requests
        self._turns: dict[tuple[str, int, int], int] = {}

    def turn_ns(self, worker: str, gpcs: int, batch: int) -> int:
        """The model's inference time; at batch 0, which is not known, that of its mean request."""
        key = (worker, gpcs, batch)
        known = self._turns.get(key)
        if known is None:
            infer = self._models[worker].infer
            known = infer.ns(gpcs, batch) if batch else self._usual_ns(worker, gpcs)
            self._turns[key] = known
        return known

    def _usual_ns(self, worker: str, gpcs: int) -> int:
        asked = Counter(r.batch for r in self._requests if r.model == worker)
        infer = self._models[worker].infer
        return sum(infer.ns(gpcs, batch) * count for batch, count in asked.items()) // max(1, asked.total())

    def load_ns(self, worker: str) -> int:
        """The model's load time."""
        return 0 if self._preloaded else self._models[worker].load_ns

    def gap_ns(self, worker: str) -> int:
        """A scenario's request wants its slice at once."""
        return 0

    def held_bytes(self, worker: str) -> int:
        """Memory of the model's whole worker process."""
        return 0 if self._preloaded else self._models[worker].memory_bytes


class Noise:
    """Factors on the estimates: exp(noise_sigma * z), one for a request's load and one for its inference.

    z is drawn for each request in list order, load first, whether it is needed or not, so that two policies
    see the same luck.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._factors: list[float] | None = None
        if scenario.noise_sigma > 0:
            import numpy  # takes longer to import than most scenarios to run

            z = numpy.random.default_rng(scenario.seed).standard_normal(2 * len(scenario.requests))
            try:
                self._factors = [math.exp(scenario.noise_sigma * float(one)) for one in z]
            except OverflowError as error:
                raise bad("noise_sigma", f"{scenario.noise_sigma!r} makes times endless; give less") from error

    def load_ns(self, request: int, estimate_ns: int) -> int:
        """What the load of the request at this place in the list takes."""
        return self._noisy(2 * request, estimate_ns)

    def infer_ns(self, request: int, estimate_ns: int) -> int:
        """What its inference takes."""
        return self._noisy(2 * request + 1, estimate_ns)

    def _noisy(self, draw: int, estimate_ns: int) -> int:
        if self._factors is None:
            return estimate_ns
        try:
            return round(estimate_ns * self._factors[draw])
        except OverflowError as error:
            raise bad("noise_sigma", "makes times endless; give less") from error
