"""The setting in which arXiv 2604.14993 simulates chains (section 4): BLOOM-176B on MIG slices across Europe.

Round trips come from RIPE Atlas measurements, which lie in a folder `shared` beside the checkout. Where they are
absent, the figures say so and are skipped.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.core.chains.model import Server, Service

MEASUREMENTS = Path(__file__).parents[3] / "shared" / "data" / "wan_rtt" / "LearningDataset_RTT_RipeAtlasEU.csv"
BLOCKS, BLOCK_GB, CACHE_GB, MAX_LOAD = 70, 1.32, 0.11, 0.7
RATE_RPS = 0.2
C = 7  # reserved jobs a chain in the paper's comparisons
FAST, SLOW = (40.0, 0.109), (20.0, 0.175)  # GB and seconds a block: 3g.40gb and 2g.20gb
OVERHEAD_S = 0.018  # of each hop, beside the round trip
TOKENS_OUT = 20


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place with its median latency."""

    latency_ms: float
    latitude: float
    longitude: float

    def round_trip_s(self, other: Anchor) -> float:
        """0.3 of both medians, and 0.01 ms a kilometre along the great circle."""
        return (0.3 * (self.latency_ms + other.latency_ms) + 0.01 * _kilometres(self, other)) / 1e3


def _kilometres(one: Anchor, other: Anchor) -> float:
    lat1, lon1, lat2, lon2 = map(math.radians, (one.latitude, one.longitude, other.latitude, other.longitude))
    haversine = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(haversine))


def anchors() -> list[Anchor]:
    """All measured places; ends the process with a word on stderr where the measurements are absent."""
    if not MEASUREMENTS.is_file():
        print(f"Skipped: {MEASUREMENTS} is not there.", file=sys.stderr)
        sys.exit(0)
    latencies: dict[str, list[float]] = defaultdict(list)
    places: dict[str, tuple[float, float]] = {}
    with MEASUREMENTS.open(newline="") as file:
        for row in csv.DictReader(file):
            latencies[row["anchor_id"]] += [float(row[f"latency_m{n}"]) for n in range(1, 5) if row[f"latency_m{n}"]]
            places[row["anchor_id"]] = (float(row["latitude"]), float(row["longitude"]))
    return [Anchor(statistics.median(latencies[name]), *places[name]) for name in sorted(latencies)]


def service(rate_rps: float = RATE_RPS) -> Service:
    """BLOOM-176B at this rate."""
    return Service(BLOCKS, BLOCK_GB, CACHE_GB, rate_rps, MAX_LOAD)


def topology(places: list[Anchor], seed: int, servers: int = 20, fast: float = 0.2) -> list[Server]:
    """An orchestrator and servers at random places; a share `fast` of the servers, the first ones, is of the fast kind.

    tc counts a round trip and the overhead for each token that comes out.
    """
    chosen = [places[k] for k in np.random.default_rng(seed).permutation(len(places))[: servers + 1]]
    found = []
    for j, place in enumerate(chosen[1:]):
        memory_gb, block_s = FAST if j < round(fast * servers) else SLOW
        comm_s = TOKENS_OUT * (chosen[0].round_trip_s(place) + OVERHEAD_S)
        found.append(Server(f"s{j}", memory_gb, round(comm_s * 1e9), round(block_s * 1e9)))
    return found
