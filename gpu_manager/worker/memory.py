"""Bytes held, and the hard limit on them.

On a CPU slice a worker holds its own anonymous pages (private ones: what it still shares with the
zygote is the zygote's) and the pages of model files it maps, counted in full for each worker although the
page cache shares them. On a GPU it holds its context and what torch's allocator has taken. The context is
what `mem_get_info` says is gone since before the worker, read once, when it has just been made: later
the difference would be other workers' as well. The GPU manager measures the moment before, because asking from
here would already make a context, and puts NVML's own figure for the process above ours where NVML has one.

The limit is RLIMIT_DATA on a CPU slice, which counts the same two things, as address space, and
torch's own memory fraction on a GPU, for what the context leaves: an overrun is an exception inside the worker. What
RLIMIT_DATA misses, since it leaves room for what is reserved and never touched, the cgroup of the worker catches.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path

# What malloc, thread stacks and Python may reserve beyond what they touch; not counted as held.
_RESERVE_BYTES = 64 << 20
_UNTOUCHED_BYTES = 4 << 20  # the same for a load, which starts no threads
_STUCK = re.compile(r"tried to allocate (\d+) bytes|Tried to allocate ([\d.]+) ([KMG])iB")
_FIELD = re.compile(rb"^(\w+): +(\d+) kB", re.M)
_NEVER = 1 << 60  # Linux before 6.0 does not say
_FEW_KB = 256
_PRIVATE_DIRTY = re.compile(rb"^Private_Dirty: +(\d+) kB", re.M)
_ANONYMOUS = re.compile(rb"^Anonymous: +(\d+) kB", re.M)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Overrun(Exception):
    """The worker would hold more than its limit; `needed_bytes` is what it would have held."""

    def __init__(self, needed_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The worker needs {needed_bytes} bytes and may hold {limit_bytes}.")
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes


def _own_anonymous() -> int:
    """Anonymous pages that no other process shares.

    These are the private dirty ones, of which the kernel has a sum, unless a model file's pages are dirty
    as well: not written to the disk yet, or never, on tmpfs. Only then are the mappings added up one by one, which
    takes ten times as long.
    """
    rollup = Path("/proc/self/smaps_rollup").read_bytes()
    whole = {name: int(kilobytes) for name, kilobytes in _FIELD.findall(rollup)}
    if whole.get(b"Pss_Dirty", _NEVER) - whole.get(b"Pss_Anon", 0) <= _FEW_KB:
        return whole[b"Private_Dirty"] * 1024
    text = Path("/proc/self/smaps").read_bytes()
    pairs = zip(_PRIVATE_DIRTY.findall(text), _ANONYMOUS.findall(text), strict=True)
    return sum(min(int(dirty), int(anonymous)) for dirty, anonymous in pairs) * 1024


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


class Ledger:
    """What this worker holds and may hold."""

    def __init__(self, cuda: bool) -> None:
        self._cuda = cuda
        self._context_bytes = -1  # of the GPU, once it is made
        self.mapped_bytes = 0
        self.limit_bytes = 0
        self._born_data = _status("VmData:")

    def open_gpu(self, free_before_bytes: int) -> None:
        """Make the context, before which the GPU had so much free; without a figure the context is not counted."""
        if not self._cuda or self._context_bytes >= 0:
            return
        import torch

        free, _ = torch.cuda.mem_get_info()
        gone = free_before_bytes - int(free) - int(torch.cuda.memory_reserved()) if free_before_bytes else 0
        self._context_bytes = max(0, gone)

    def held(self) -> int:
        """Bytes that this worker holds now."""
        if self._cuda:
            import torch

            return max(0, self._context_bytes) + int(torch.cuda.memory_reserved())
        return _own_anonymous() + self.mapped_bytes

    def limit(self, limit_bytes: int) -> None:
        """From now on this worker may hold so many bytes; 0 lifts the limit."""
        self.limit_bytes = limit_bytes
        if self._cuda:
            import torch

            total = torch.cuda.mem_get_info()[1]
            left = max(0, limit_bytes - max(0, self._context_bytes))
            torch.cuda.set_per_process_memory_fraction(min(1.0, left / total) if limit_bytes else 1.0)
            return
        # While it loads, others may have the rest of the slice: what it touches is within the limit at every moment.
        self._cap(_status("VmData:") + max(0, limit_bytes - self.held()) + _UNTOUCHED_BYTES)

    def serve(self) -> None:
        """A load is over: calls may start threads and reserve what they do not touch."""
        if not self._cuda:
            self._cap(self._born_data + self.limit_bytes + _RESERVE_BYTES)

    def allow(self, limit_bytes: int) -> None:
        """From this call on the worker may hold so many bytes."""
        if self._cuda:
            self.limit(limit_bytes)
        else:
            self.limit_bytes = limit_bytes
            self.serve()

    def _cap(self, ceiling: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling if self.limit_bytes else resource.RLIM_INFINITY, hard))

    def check(self, mapped_bytes: int) -> int:
        """Bytes held, after a load that mapped so many; raises Overrun when they are over the limit."""
        held = self.held() + mapped_bytes
        if self.limit_bytes and held > self.limit_bytes:
            raise Overrun(held, self.limit_bytes)
        self.mapped_bytes += mapped_bytes
        return held

    def overrun(self, error: BaseException, mapped_bytes: int = 0) -> Overrun | None:
        """The Overrun that an allocation failure means, None for any other error.

        `mapped_bytes`: what the load that failed maps beside, whether it came to that or not.
        """
        import torch

        text = str(error)
        out_of_memory = isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) or (
            isinstance(error, RuntimeError) and "allocate memory" in text
        )
        if isinstance(error, OSError) and error.errno == 12:
            out_of_memory = True
        if not self.limit_bytes or not out_of_memory:
            return None
        match = _STUCK.search(text)
        wanted = 0
        if match:
            wanted = int(match[1]) if match[1] else int(float(match[2]) * _UNITS[match[3]])
        return Overrun(max(self.held() + mapped_bytes + wanted, self.limit_bytes + 1), self.limit_bytes)
