"""What a call will take, learned from the calls before it.

The core asks an `Estimates`; the simulator answers from a scenario's tables, the service from
`Profiles`, which smooths measurements. A mean over the first samples, then an exponential one: the
first call of a worker (allocator and caches cold) is soon forgotten, a new batch size is soon known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from proto.types.models import Model, Profile

MS = 1_000_000

# Before the first measurement. A wrong guess costs one placement, so they need only the right size.
GUESSED_LOAD_NS = 1_000 * MS
GUESSED_TURN_NS = 50 * MS

_SMOOTHING = 0.2  # weight of the newest sample once there are 1 / _SMOOTHING of them
_MAX_BATCHES = 64  # batch sizes kept per worker and slice size; beyond, the nearest known one learns


class Estimates(Protocol):
    """Nanoseconds and bytes of a worker key on a slice of `gpcs` at a batch size (0: not known)."""

    def turn_ns(self, worker: str, gpcs: int, batch: int) -> int:
        """How long an invocation occupies the slice."""

    def load_ns(self, worker: str) -> int:
        """How long the worker takes to load."""

    def gap_ns(self, worker: str) -> int:
        """From the start of the invocation to its first model call."""

    def held_bytes(self, worker: str) -> int:
        """Memory of the whole worker process."""


@dataclass(slots=True)
class _Mean:
    value: float = 0.0
    samples: int = 0

    def learn(self, sample: float) -> None:
        self.samples += 1
        self.value += (sample - self.value) * max(1.0 / self.samples, _SMOOTHING)


@dataclass(slots=True)
class _Known:
    """What is known of one worker key."""

    held_bytes: int = 0
    tensor_bytes: dict[str, int] = field(default_factory=dict)
    load: _Mean = field(default_factory=_Mean)
    gap: _Mean = field(default_factory=_Mean)
    between: _Mean = field(default_factory=_Mean)
    calls: _Mean = field(default_factory=_Mean)
    call: dict[tuple[int, int], _Mean] = field(default_factory=dict)
    turn: dict[tuple[int, int], _Mean] = field(default_factory=dict)


class Profiles:
    """Learned estimates of all worker keys; `changed` collects the keys to be persisted."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self.changed: set[str] = set()

    # ------------------------------------------------------------------ answers

    def turn_ns(self, worker: str, gpcs: int, batch: int) -> int:
        """See Estimates; between known batch sizes it is interpolated, beyond them the nearest is taken."""
        known = self._known.get(worker)
        if known is None or not known.turn:
            return GUESSED_TURN_NS
        exact = known.turn.get((gpcs, batch))
        return int(exact.value) if exact is not None else _between(known.turn, gpcs, batch)

    def load_ns(self, worker: str) -> int:
        """See Estimates."""
        known = self._known.get(worker)
        return int(known.load.value) if known is not None and known.load.samples else GUESSED_LOAD_NS

    def gap_ns(self, worker: str) -> int:
        """See Estimates; 0 before the first measurement."""
        known = self._known.get(worker)
        return int(known.gap.value) if known is not None else 0

    def held_bytes(self, worker: str) -> int:
        """See Estimates; before it was measured, its largest model: less than it will hold, so that a guess
        never refuses what might fit."""
        known = self._known.get(worker)
        if known is None:
            return 0
        return known.held_bytes or max(known.tensor_bytes.values(), default=0)

    def measured_bytes(self, worker: str) -> int:
        """What the worker held when it was last measured, 0 if it never was."""
        known = self._known.get(worker)
        return known.held_bytes if known is not None else 0

    def known(self, worker: str) -> bool:
        """Whether an invocation of it has been measured, its gap included."""
        known = self._known.get(worker)
        return known is not None and bool(known.gap.samples)

    def loaded(self, worker: str) -> bool:
        """Whether a load of it has been measured."""
        known = self._known.get(worker)
        return known is not None and bool(known.load.samples)

    def usual(self, worker: str) -> tuple[int, int, float]:
        """(gap ns, ns between two calls of one invocation, calls of one invocation)."""
        known = self._known.get(worker)
        if known is None:
            return 0, 0, 0.0
        return int(known.gap.value), int(known.between.value), known.calls.value

    # ------------------------------------------------------------------ learning

    def learn_model(self, model: Model, worker: str) -> None:
        """A model of `worker` was registered: its tensors bound the worker's memory from below."""
        self._get(worker).tensor_bytes[model.digest] = model.tensor_bytes

    def learn_turn(self, worker: str, gpcs: int, batch: int, occupied_ns: int, calls: int, infer_ns: int) -> None:
        """A turn of `occupied_ns` with `calls` calls, `infer_ns` of them running, has ended."""
        known = self._change(worker)
        _entry(known.turn, gpcs, batch).learn(occupied_ns)
        if calls > 0:
            _entry(known.call, gpcs, batch).learn(infer_ns / calls)

    def learn_load(self, worker: str, load_ns: int, held_bytes: int) -> None:
        """A load has finished."""
        known = self._change(worker)
        known.load.learn(load_ns)
        if held_bytes > 0:
            known.held_bytes = held_bytes

    def learn_held(self, worker: str, held_bytes: int) -> bool:
        """A worker was measured again; whether that is news."""
        if held_bytes <= 0:
            return False
        known = self._get(worker)
        news = abs(held_bytes - known.held_bytes) > known.held_bytes // 100
        if news:
            known.held_bytes = held_bytes
            self.changed.add(worker)
        return news

    def learn_invocation(self, worker: str, gap_ns: int, between_ns: int, calls: int) -> None:
        """A broker has measured a finished invocation."""
        if calls <= 0:
            return
        known = self._change(worker)
        known.gap.learn(gap_ns)
        known.calls.learn(calls)
        if calls > 1:
            known.between.learn(between_ns)

    def forget(self, worker: str) -> None:
        """Nobody deploys it any more."""
        self._known.pop(worker, None)
        self.changed.discard(worker)

    # ------------------------------------------------------------------ persistence

    def profile(self, worker: str) -> Profile:
        """A snapshot of one worker key; raises KeyError if nothing is known of it."""
        known = self._known[worker]
        return Profile(
            worker=worker,
            held_bytes=known.held_bytes,
            load_ns=int(known.load.value),
            gap_ns=int(known.gap.value),
            between_ns=int(known.between.value),
            calls=known.calls.value,
            samples=sum(mean.samples for mean in known.turn.values()),
            call_ns={key: int(mean.value) for key, mean in known.call.items()},
            turn_ns={key: int(mean.value) for key, mean in known.turn.items()},
        )

    def restore(self, profile: Profile) -> None:
        """Take up a snapshot of an earlier life: it counts as one sample each, so that news soon weighs more."""
        known = self._get(profile.worker)
        known.held_bytes = profile.held_bytes
        known.load = _Mean(profile.load_ns, 1 if profile.load_ns else 0)
        known.gap = _Mean(profile.gap_ns, 1 if profile.samples else 0)
        known.between = _Mean(profile.between_ns, 1 if profile.between_ns else 0)
        known.calls = _Mean(profile.calls, 1 if profile.calls else 0)
        known.call = {key: _Mean(value, 1) for key, value in profile.call_ns.items()}
        known.turn = {key: _Mean(value, 1) for key, value in profile.turn_ns.items()}

    @property
    def workers(self) -> tuple[str, ...]:
        """All keys of which anything is known."""
        return tuple(self._known)

    def _get(self, worker: str) -> _Known:
        return self._known.setdefault(worker, _Known())

    def _change(self, worker: str) -> _Known:
        self.changed.add(worker)
        return self._get(worker)


def _entry(table: dict[tuple[int, int], _Mean], gpcs: int, batch: int) -> _Mean:
    """The entry that a sample at (gpcs, batch) belongs to; a full table lends the nearest one."""
    entry = table.get((gpcs, batch))
    if entry is None:
        row = [known for size, known in table if size == gpcs]
        if len(row) >= _MAX_BATCHES:
            return table[gpcs, min(row, key=lambda known: abs(known - batch))]
        entry = table[gpcs, batch] = _Mean()
    return entry


def _between(table: dict[tuple[int, int], _Mean], gpcs: int, batch: int) -> int:
    """Interpolate along the batch sizes of the nearest slice size that was measured."""
    size = min({known for known, _ in table}, key=lambda known: (abs(known - gpcs), known))
    row = sorted((known, mean.value) for (of, known), mean in table.items() if of == size)
    if batch <= 0:  # not known: what calls of this worker take on average
        return int(sum(value for _, value in row) / len(row))
    below = [point for point in row if point[0] <= batch]
    above = [point for point in row if point[0] > batch]
    if not below or not above:
        return int((below[-1] if below else above[0])[1])
    (b0, s0), (b1, s1) = below[-1], above[0]
    return int(s0 + (s1 - s0) * (batch - b0) / (b1 - b0))
