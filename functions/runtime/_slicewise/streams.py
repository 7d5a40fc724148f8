"""Streams, events and device contexts of torch.cuda where there is no GPU: in order, and timed by the clock."""

import time


class Event:
    """As torch.cuda.Event: whatever was asked before `record` is done by then."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False) -> None:
        self._recorded = None

    def record(self, stream=None) -> None:
        """Note the time."""
        self._recorded = time.perf_counter()

    def elapsed_time(self, end) -> float:
        """Milliseconds between two recorded events."""
        if self._recorded is None or end._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._recorded - self._recorded) * 1000.0

    def query(self) -> bool:
        """Always done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream=None) -> None:
        """Nothing to wait for."""


class Stream:
    """As torch.cuda.Stream: everything runs in order anyway."""

    def __init__(self, device=None, priority=0, **kwargs) -> None:
        self.device = device
        self.priority = priority
        self.cuda_stream = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Always done."""
        return True

    def wait_stream(self, stream) -> None:
        """Nothing to wait for."""

    def wait_event(self, event) -> None:
        """Nothing to wait for."""

    def record_event(self, event=None):
        """The event, recorded now."""
        event = event or Event()
        event.record()
        return event

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        return None


class _Inside:
    """A context that changes nothing: `torch.cuda.device(0)`, `torch.cuda.stream(s)`."""

    def __init__(self, *args) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        return None


def patch(torch) -> None:
    """Put these into torch.cuda."""
    torch.cuda.Event = Event
    torch.cuda.Stream = Stream
    torch.cuda.device = _Inside
    torch.cuda.device_of = _Inside
    torch.cuda.stream = _Inside
    torch.cuda.current_stream = lambda device=None: Stream(device)
    torch.cuda.default_stream = lambda device=None: Stream(device)
    torch.cuda.set_stream = lambda stream: None
