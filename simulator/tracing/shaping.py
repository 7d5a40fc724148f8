"""What of a trace becomes requests: a window of time, the functions called most, so many a minute, faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from proto.types.arrivals import Arrival
from proto.wire.fields import bad
from simulator.tracing.azure_functions import MINUTE_NS

Draw = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Window:
    """[from_ns, to_ns) since the trace begins; `to_ns` None is its end."""

    from_ns: int = 0
    to_ns: int | None = None

    def __post_init__(self) -> None:
        if self.to_ns is not None and self.to_ns <= self.from_ns:
            raise bad("--to", "must be later than --from")

    def cut(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """Those within, by time, with times since the window begins."""
        inside = [a for a in arrivals if self.from_ns <= a.at_ns and (self.to_ns is None or a.at_ns < self.to_ns)]
        return sorted((replace(a, at_ns=a.at_ns - self.from_ns) for a in inside), key=lambda a: a.at_ns)


def most_called(calls: Mapping[str, int], most: int | None) -> list[str]:
    """Functions that are called at all, most called first, of equal ones the earlier in `calls`; at most `most`."""
    called = [function for function, count in calls.items() if count]
    return sorted(called, key=lambda function: -calls[function])[:most]


def per_minute(arrivals: list[Arrival], wanted: int, length_ns: int | None, draw: Draw) -> list[Arrival]:
    """So many calls in every minute that has any, by its mix of functions; a last minute cut short has its share.

    Some are left out at random where there are too many, some come again at another moment where too few.
    """
    minutes: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        minutes.setdefault(arrival.at_ns // MINUTE_NS, []).append(arrival)
    made: list[Arrival] = []
    for minute, there in minutes.items():
        begin_ns = minute * MINUTE_NS
        span_ns = MINUTE_NS if length_ns is None else min(MINUTE_NS, length_ns - begin_ns)
        count = round(wanted * span_ns / MINUTE_NS)
        again = (there[int(draw() * len(there))] for _ in range(count - len(there)))
        made += _chosen(there, count, draw) if count < len(there) else there
        made += [replace(arrival, at_ns=begin_ns + int(draw() * span_ns)) for arrival in again]
    return sorted(made, key=lambda a: a.at_ns)


def faster(arrivals: Iterable[Arrival], factor: float) -> list[Arrival]:
    """The same calls in 1/factor of the time."""
    return [replace(arrival, at_ns=round(arrival.at_ns / factor)) for arrival in arrivals]


def _chosen(there: list[Arrival], count: int, draw: Draw) -> list[Arrival]:
    order = sorted(range(len(there)), key=lambda _: draw())
    return [there[place] for place in sorted(order[:count])]
