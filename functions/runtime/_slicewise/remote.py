"""Weights that lie on a slice: a tensor subclass that knows what they are and fetches what they hold.

Shape, dtype, device and numel are answered here; reading values (`.cpu()`, `.to("cpu")`, printing,
deepcopy, `.item()`, copying into another tensor) asks the worker; everything else raises an
error that names the operation and the way out.
"""

import sys

from .errors import not_carried

READS = ("_to_copy", "clone", "_local_scalar_dense", "equal", "zeros_like", "ones_like", "empty_like", "full_like",
         "rand_like", "randn_like")  # fmt: skip

# What is answered without any value, or has a method of its own below.
FORM = ("__get__", "__set__", "__delete__", "size", "stride", "numel", "nelement", "dim", "ndimension", "element_size",
        "is_floating_point", "is_complex", "is_signed", "is_contiguous", "storage_offset", "get_device", "__len__",
        "__hash__", "__repr__", "__deepcopy__", "__reduce_ex__", "detach", "requires_grad_", "is_inference",
        "_is_view", "data_ptr", "is_set_to", "is_same_size", "untyped_storage")  # fmt: skip

VIEWS = ("T", "mT", "H", "mH", "real", "imag")  # attributes that are tensors

_types = {}


def remote_type():
    """The class, made when torch is there."""
    torch = sys.modules["torch"]
    if "type" not in _types:
        _types["type"] = _make(torch)
    return _types["type"]


def is_remote(value) -> bool:
    """Whether this tensor lies on a slice."""
    return "type" in _types and isinstance(value, _types["type"])


def wrap(tensor, source, name):
    """A stand-in for `tensor`; `source(names)` gives CPU tensors for names such as "encoder.weight"."""
    return _stand_in(
        tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.requires_grad, source, name
    )


def _stand_in(shape, stride, offset, dtype, requires_grad, source, name):
    torch = sys.modules["torch"]
    made = torch.Tensor._make_wrapper_subclass(
        remote_type(),
        shape,
        strides=stride,
        storage_offset=offset,
        dtype=dtype,
        device=torch.device("cuda", 0),
        # Never known to autograd: it looks for the device's guard and ends the process without one.
        requires_grad=False,
    )
    made._source = source
    made._name = name
    made._wants_grad = requires_grad
    return made


def fetch(tensor):
    """The values of a remote tensor, as a CPU tensor of its own."""
    return tensor._source([tensor._name])[0]


def _written(what):
    return not_carried(
        "{} on weights that lie on a slice".format(what),
        "call the model or a method of its class, read weights with .cpu() first, and change them by"
        " load_state_dict() or a new torch.nn.Parameter, which registers the model anew.",
    )


def _fetched(value):
    """The same with the values of weights in their place."""
    if is_remote(value):
        return fetch(value)
    if type(value) in (tuple, list):
        return type(value)(_fetched(item) for item in value)
    if type(value) is dict:
        return {key: _fetched(item) for key, item in value.items()}
    return value


def _make(torch):
    aten = torch.ops.aten

    class RemoteTensor(torch.Tensor):
        """A weight of a registered model."""

        def __repr__(self, *, tensor_contents=None):
            return repr(fetch(self))

        def __deepcopy__(self, memo):
            values = fetch(self)
            if isinstance(self, torch.nn.Parameter):
                values = torch.nn.Parameter(values, requires_grad=self.requires_grad)
            memo[id(self)] = values
            return values

        def __reduce_ex__(self, protocol):
            return self.__deepcopy__({}).__reduce_ex__(protocol)

        @property
        def requires_grad(self):
            """As it was before registration; no gradient is ever computed here."""
            return self._wants_grad

        @requires_grad.setter
        def requires_grad(self, wanted):
            self._wants_grad = bool(wanted)

        def requires_grad_(self, requires_grad=True):
            """Only noted: a model on a slice is not trained."""
            self._wants_grad = bool(requires_grad)
            return self

        @property
        def data(self):
            """The same weight, for whoever reads it."""
            return _again(self)

        @data.setter
        def data(self, values):
            raise not_carried(
                "an assignment to .data of weights that lie on a slice",
                "assign a new torch.nn.Parameter to the module, or load_state_dict(), which registers the model anew.",
            )

        def backward(self, *args, **kwargs):
            """Always refused."""
            raise not_carried("backward()", "train the model before it is deployed; slices run inference only.")

        def numpy(self, *args, **kwargs):
            """The values as a numpy array."""
            return fetch(self).numpy()

        def tolist(self):
            """The values as nested lists."""
            return fetch(self).tolist()

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = getattr(function, "__name__", "")
            if name in FORM and getattr(getattr(function, "__self__", None), "__name__", "") not in VIEWS:
                return super().__torch_function__(function, types, args, kwargs)
            if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs:
                raise _written(name)
            return function(*_fetched(args), **_fetched(kwargs))

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            packet = function.overloadpacket
            first = args[0] if args else None
            if packet in (aten.detach, aten.alias) and is_remote(first):
                return _again(first)
            if packet in _reads(aten):
                return function(*_local(args), **_local_keywords(kwargs))
            if packet is aten.copy_ and not is_remote(first):
                return function(*_local(args), **kwargs)
            raise _written(function)

    def _local(args):
        return tuple(fetch(item) if is_remote(item) else _on_cpu(item) for item in args)

    def _local_keywords(kwargs):
        return {key: _on_cpu(fetch(value) if is_remote(value) else value) for key, value in kwargs.items()}

    def _on_cpu(value):
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value

    def _again(tensor):
        return _stand_in(
            tensor.shape,
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
            tensor.requires_grad,
            tensor._source,
            tensor._name,
        )

    return RemoteTensor


def _reads(aten):
    """Operations that only read, or only use the form; they run on fetched values."""
    if "reads" not in _types:
        _types["reads"] = {getattr(aten, name) for name in READS}
    return _types["reads"]
