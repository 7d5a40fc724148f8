"""Tensors in a memfd: how a call's arguments, its answer and a model package lay bytes out.

A payload is `[blob][padding][tensor bytes, each aligned to 64]`; its layout says
`{"blob": n, "tensors": [[dtype, shape, offset, nbytes], ...]}`. The runtime in a user's process and
the worker on a slice both use this file, so that what one writes is what the other reads.
torch is taken as found: this file never imports it before somebody else has.
"""

import contextlib
import ctypes
import mmap
import os
import sys
from collections import deque

from .errors import not_carried

ALIGNMENT = 64
# Below this a copy costs less than mapping pages; above it the mapping is the tensor's memory.
MAP_FROM_BYTES = 64 * 1024
# writev takes at most IOV_MAX buffers and 2 GiB at once.
_MAX_BUFFERS = 1024
_MAX_WRITE = 1 << 30
# Linux 5.14: map all pages now, and copy none. MAP_POPULATE would copy each page of a private mapping.
_POPULATE_READ = 22
_PADDING = bytes(ALIGNMENT)


def aligned(size: int) -> int:
    """The next multiple of ALIGNMENT."""
    return (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)


def dtype_name(dtype) -> str:
    """`torch.float32` as "float32"."""
    return str(dtype)[6:]


def tensor_view(tensor):
    """The bytes of a contiguous CPU tensor as a buffer, without numpy and without a copy."""
    nbytes = tensor.numel() * tensor.element_size()
    if not nbytes:
        return b""
    return (ctypes.c_char * nbytes).from_address(tensor.data_ptr())


def plain(tensor):
    """A dense, contiguous, resolved CPU tensor with the same values; raises for what has no such form."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise not_carried(
            "a {} tensor".format("quantized" if tensor.is_quantized else str(tensor.layout)[6:]),
            "call .to_dense() or .dequantize() before it crosses to the slice.",
        )
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


class Gathering:
    """Collects tensors on the way into a payload; `add` gives each its index."""

    def __init__(self) -> None:
        self._tensors = []
        self._indices = {}

    def add(self, tensor) -> int:
        """Index of this tensor; the same object twice is carried once."""
        known = self._indices.get(id(tensor))
        if known is not None:
            return known
        dense = plain(tensor)
        index = self._indices[id(tensor)] = len(self._tensors)
        # The original is kept alive beside its dense form, so that ids stay unique.
        self._tensors.append((tensor, dense))
        return index

    def lay_out(self, blob: bytes):
        """(layout, buffers, total bytes) of the payload with this blob before the tensors."""
        buffers = [blob]
        position = len(blob)
        entries = []
        for _, dense in self._tensors:
            start = aligned(position)
            if start != position:
                buffers.append(_PADDING[: start - position])
            nbytes = dense.numel() * dense.element_size()
            entries.append([dtype_name(dense.dtype), list(dense.shape), start, nbytes])
            if nbytes:
                buffers.append(tensor_view(dense))
            position = start + nbytes
        return {"blob": len(blob), "tensors": entries}, buffers, position


def write_all(fd: int, buffers) -> None:
    """Write every buffer in order, whatever the limits of one writev are."""
    pending = deque(memoryview(buffer).cast("B") for buffer in buffers if len(buffer))
    while pending:
        batch = []
        size = 0
        while pending and len(batch) < _MAX_BUFFERS and size < _MAX_WRITE:
            view = pending.popleft()
            if size + len(view) > _MAX_WRITE:
                pending.appendleft(view[_MAX_WRITE - size :])
                view = view[: _MAX_WRITE - size]
            batch.append(view)
            size += len(view)
        written = os.writev(fd, batch)
        while written < size:  # a short write: what is left goes first in the next round
            view = batch.pop()
            rest = min(len(view), size - written)
            pending.appendleft(view[len(view) - rest :])
            size -= rest


def to_memfd(buffers, name: str = "slicewise") -> int:
    """A new memfd that holds the buffers one after the other; the caller closes it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        write_all(fd, buffers)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_file(fd: int, size: int):
    """The file's bytes as a private, writable buffer: writing to it never reaches the file."""
    if size <= MAP_FROM_BYTES:
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            count = os.preadv(fd, [view[done:]], done)
            if not count:
                raise not_carried("a payload that ends early", "the other side sent fewer bytes than it said.")
            done += count
        return data
    mapping = mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with contextlib.suppress(OSError):  # an older kernel maps the pages one by one, as they are read
        mapping.madvise(_POPULATE_READ)
    return mapping


def tensors_of(buffer, entries):
    """Tensors that lie in `buffer` (from `map_file`) by a layout's entries; they keep it alive.

    Raises ValueError when an entry does not fit the buffer: layouts come from another process.
    """
    torch = sys.modules["torch"]
    found = []
    for name, shape, offset, nbytes in entries:
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError("a payload names the dtype {!r}, which this torch does not have".format(name))
        count = 1
        for extent in shape:
            if not isinstance(extent, int) or extent < 0:
                raise ValueError("a payload has a shape that is none: {!r}".format(shape))
            count *= extent
        if count == 0:
            found.append(torch.empty(shape, dtype=dtype))
            continue
        if count * dtype.itemsize != nbytes or offset < 0 or offset + nbytes > len(buffer):
            raise ValueError("a payload's layout does not fit its {} bytes".format(len(buffer)))
        found.append(torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset).view(shape))
    return found
