"""One model call: arguments into a payload, to the broker, the answer's tree back into values.

The arguments are pickled with their tensors set aside and unpickled in the worker only. Arguments
that a call changes in place stay as they were here.
"""

import builtins
import io
import json
import os
import pickle
import sys

from . import ambience, byvalue, channel, context, outlets, payload, provenance, remote, shaking, tree
from .errors import SlicewiseError, not_carried

READ = "$read"


class _Arguments(pickle.Pickler):
    """Tensors become numbers, streamers (outlets.py) pairs; `names` are the classes and functions that were met."""

    def __init__(self, file, gathering, streamers) -> None:
        super().__init__(file, protocol=4)
        self._gathering = gathering
        self._streamers = streamers
        self._torch = sys.modules["torch"]
        self.names = set()

    def persistent_id(self, obj):
        if isinstance(obj, self._torch.Tensor):
            if obj.layout is not self._torch.strided:
                return None  # by its parts, which are dense
            return self._gathering.add(remote.fetch(obj) if remote.is_remote(obj) else obj)
        if type(obj).__module__ != "builtins" and outlets.is_outlet(obj):
            return ("outlet", self._streamers.add(obj))
        return None

    def reducer_override(self, obj):
        return byvalue.named_or_reduced(obj, self.names)


class _Raised(Exception):
    """Carries the traceback of the slice, as the cause of the error that the model raised there."""

    def __str__(self) -> str:
        return "\n" + self.args[0]


def infer(digest, method, args, kwargs, changes=None):
    """Run `method` of a model on its slice; raises what the model raised, or SlicewiseError.

    `changes`: what watching.py has seen of the model since its registration.
    """
    gathering = payload.Gathering()
    streamers = outlets.Outlets()
    blob = _pack(args, kwargs, {**(changes or {}), **ambience.around()}, gathering, streamers, method)
    layout, buffers, size = gathering.lay_out(blob)
    header = {
        "op": "infer",
        "call": context.call.get(),
        "model": digest,
        "method": method,
        "batch": _batch(layout),
        "bytes": size,
        "layout": layout,
    }
    fds = [payload.to_memfd(buffers, "slicewise-call")]
    answer, received = {}, []
    try:
        try:
            way = streamers.open()
            if way is not None:
                header["stream"] = True
                fds.append(way)
            answer, received = channel.request(header, fds)
        finally:
            for descriptor in fds:
                os.close(descriptor)
            streamers.finish(failed=not answer.get("ok"))
        if not answer.get("ok"):
            raise _error(answer)
        return _value(answer, received)
    finally:
        for descriptor in received:
            os.close(descriptor)


def _pack(args, kwargs, around, gathering, streamers, method):
    """The blob: the arguments' pickle, behind that of what is around the call if anything is."""
    file = io.BytesIO()
    pickler = _Arguments(file, gathering, streamers)
    try:
        pickler.dump((args, kwargs))
        own = frozenset(name for name in pickler.names if provenance.is_own(name[0]))
        if own:
            around = dict(around, **_sources(own))
        if not around:
            return file.getvalue()
        head = io.BytesIO()
        _Arguments(head, gathering, streamers).dump(around)
        return head.getvalue() + file.getvalue()
    except SlicewiseError:
        raise
    except Exception as error:
        raise not_carried(
            "the arguments of {} ({})".format(method, error),
            "pass tensors, numbers, strings and containers of them to the model.",
        ) from error


_carried_sources = {}  # names -> what a worker has to know to have them
MAX_CARRIED_SOURCES = 256


def _sources(names):
    """Sources of the user's own classes among the arguments, such as a StoppingCriteria."""
    known = _carried_sources.get(names)
    if known is None:
        archive, values = shaking.sources_of(names)
        if len(_carried_sources) >= MAX_CARRIED_SOURCES:
            _carried_sources.clear()
        known = _carried_sources[names] = {"sources": archive, "values": values}
    return known


def _batch(layout) -> int:
    """The first extent of the first tensor; 1 for a call without any."""
    for _, shape, _, _ in layout["tensors"]:
        if shape:
            return shape[0]
    return 1


def _value(answer, received):
    if len(received) != 1:
        raise SlicewiseError("internal", "The slice's answer came without its payload.")
    try:
        buffer = payload.map_file(received[0], os.fstat(received[0]).st_size)
        layout = answer["layout"]
        parsed = json.loads(bytes(memoryview(buffer)[: layout["blob"]]))
        return tree.decode(parsed, payload.tensors_of(buffer, layout["tensors"]))
    except (ValueError, KeyError, TypeError, IndexError, ImportError, AttributeError) as error:
        raise SlicewiseError("internal", "The slice's answer cannot be read: {}".format(error)) from error


def _error(answer):
    failure = answer.get("error") or {}
    exception = answer.get("exception")
    if not exception:
        return SlicewiseError(
            str(failure.get("code", "internal")), str(failure.get("message", "The model call failed without a reason."))
        )
    name = str(exception.get("type", ""))
    text = str(exception.get("text", ""))
    rebuilt = _rebuild(name, text, exception.get("args"))
    rebuilt.__cause__ = _Raised(str(exception.get("traceback", "")))
    return rebuilt


def _rebuild(name, text, args):
    kind = getattr(builtins, name, None)
    if kind is None and name.startswith("torch."):
        kind = sys.modules["torch"]
        for part in name.split(".")[1:]:
            kind = getattr(kind, part, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(*args) if isinstance(args, list) else kind(text)
        except Exception:
            return RuntimeError("{}: {}".format(name, text))
    return RuntimeError("{}: {}".format(name, text))


def read(digest, names):
    """CPU tensors with the values that parameters and buffers of a model have on the slice now."""
    return infer(digest, READ, (list(names),), {})
