"""What "cuda" means where there is none: torch.cuda answers like one GPU, tensors for it stay on the CPU.

Used in a user's process, whose models run elsewhere, and in workers of CPU slices, whose models
say "cuda" in their own code. Nothing here knows of models: models.py does.
"""

import functools
import sys
import types

from . import births

# fmt: off
FACTORIES = (
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_like", "empty_permuted",
    "empty_strided", "eye", "full", "full_like", "hamming_window", "hann_window", "kaiser_window", "linspace",
    "logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "range", "scalar_tensor", "sparse_coo_tensor", "sparse_csr_tensor", "tensor", "tril_indices",
    "triu_indices", "zeros", "zeros_like",
)
METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
NOTHING_TO_DO = (
    "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated",
    "reset_accumulated_memory_stats", "set_device", "init", "_lazy_init", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_per_process_memory_fraction",
)
# fmt: on
LEGACY = (
    "FloatTensor",
    "DoubleTensor",
    "HalfTensor",
    "BFloat16Tensor",
    "LongTensor",
    "IntTensor",
    "ShortTensor",
    "CharTensor",
    "ByteTensor",
    "BoolTensor",
)  # fmt: skip
NAME = "Slicewise slice"
TOTAL_BYTES = 16 << 30

_originals = {}


def is_cuda(device, torch) -> bool:
    """Whether a device argument, in any of its spellings, means a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, int) and not isinstance(device, bool)


def local(device, torch):
    """The same device with every GPU replaced by the CPU."""
    return torch.device("cpu") if is_cuda(device, torch) else device


def patch(torch) -> None:
    """Patch torch in this process, once."""
    if _originals:
        return
    _remember_constructors()
    for name in FACTORIES:
        if hasattr(torch, name):
            _replace(torch, name, _factory(torch, getattr(torch, name)))
    for name in METHODS:
        _replace(torch.Tensor, name, _factory(torch, getattr(torch.Tensor, name)))
    _replace(torch.Tensor, "to", _tensor_to(torch))
    _replace(torch.Tensor, "cuda", _tensor_cuda(torch))
    _replace(torch.Tensor, "pin_memory", _same)
    _replace(torch.Tensor, "is_pinned", _never)
    _replace(torch.Tensor, "record_stream", _nothing)
    _replace(torch, "load", _mapped_load(torch, torch.load))
    _replace(torch, "compile", _compile)
    _replace(torch.Tensor, "type", _typed(torch.Tensor.type))
    _replace(torch, "set_default_tensor_type", _typed_default(torch.set_default_tensor_type))
    torch.Generator = _generator(torch)
    torch.device = _numbered(torch)
    _patch_contexts(torch)
    _patch_script(torch)
    _patch_cuda(torch)


def _replace(owner, name, new) -> None:
    _originals[owner, name] = getattr(owner, name)
    setattr(owner, name, new)


def _factory(torch, original):
    @functools.wraps(original)
    def make(*args, **kwargs):
        kwargs.pop("pin_memory", None)
        if kwargs.get("device") is None:
            return original(*args, **kwargs)
        if not is_cuda(kwargs["device"], torch):
            return original(*args, **kwargs)
        kwargs["device"] = torch.device("cpu")
        return births.mark(original(*args, **kwargs))

    return make


def _generator(torch):
    """torch.Generator with "cuda" for a device: of the CPU here, of its GPU on a slice."""

    class Generator(torch.Generator):
        __doc__ = torch.Generator.__doc__

        def __new__(cls, device="cpu"):
            made = super().__new__(cls, local(device, torch))
            made._cuda = is_cuda(device, torch)
            return made

        @property
        def device(self):
            """Where its numbers are wanted."""
            return torch.device("cuda", 0) if self._cuda else torch.device("cpu")

        def __reduce__(self):
            return (generator_of, (self._cuda, self.initial_seed(), self.get_state()))

    return Generator


def generator_of(cuda, seed, state):
    """A generator as it was in another process; on a real GPU it begins at its seed."""
    torch = sys.modules["torch"]
    made = torch.Generator("cuda" if cuda else "cpu")
    if made.device.type == "cuda" and not _originals:
        return made.manual_seed(seed)
    made.set_state(state)
    return made


def _typed(original):
    @functools.wraps(original)
    def type_(self, dtype=None, *args, **kwargs):
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return original(self, dtype, *args, **kwargs) if dtype is not None else original(self)

    return type_


def _typed_default(original):
    @functools.wraps(original)
    def set_default(kind):
        return original(kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind)

    return set_default


def _numbered(torch):
    """torch.device with a bare number, which means a GPU, for a torch that has none."""
    real = torch.device

    class Kind(type):
        def __call__(cls, *args, **kwargs):
            if len(args) == 1 and not kwargs and isinstance(args[0], int) and not isinstance(args[0], bool):
                return real("cuda", args[0])
            return real(*args, **kwargs)

        def __instancecheck__(cls, value):
            return isinstance(value, real)

        def __subclasscheck__(cls, kind):
            return issubclass(kind, real)

    class device(metaclass=Kind):
        __doc__ = real.__doc__

    device.__module__, device.__qualname__ = "torch", "device"
    return device


def _tensor_to(torch):
    original, dtype = torch.Tensor.to, torch.dtype

    @functools.wraps(original)
    def to(self, *args, **kwargs):
        if len(args) == 1 and isinstance(args[0], dtype) and not kwargs:
            return original(self, args[0])
        wanted = kwargs.get("device")
        if args:
            first = wanted = args[0]
            if isinstance(first, torch.Tensor):
                wanted = first.device
                args = (local(first.device, torch), first.dtype, *args[1:])
            elif is_cuda(first, torch):
                args = (torch.device("cpu"), *args[1:])
        other = kwargs.pop("other", None)
        if other is not None:
            kwargs.update(device=other.device, dtype=other.dtype)
        if "device" in kwargs:
            kwargs["device"] = local(kwargs["device"], torch)
        moved = original(self, *args, **kwargs)
        return births.mark(moved) if is_cuda(wanted, torch) else moved

    return to


def _tensor_cuda(torch):
    def cuda(self, device=None, non_blocking=False, memory_format=None):
        return births.mark(self)

    return functools.wraps(torch.Tensor.cuda)(cuda)


def _same(self, *args, **kwargs):
    return self


def _never(*args, **kwargs):
    return False


def _nothing(*args, **kwargs):
    return None


def _mapped_load(torch, original):
    """torch.load and torch.jit.load with a map_location that may name a GPU."""

    @functools.wraps(original)
    def load(f, map_location=None, *args, **kwargs):
        if is_cuda(map_location, torch) or (
            isinstance(map_location, dict) and any(is_cuda(value, torch) for value in map_location.values())
        ):
            return births.mark(load(f, torch.device("cpu"), *args, **kwargs))
        if isinstance(map_location, dict):
            map_location = {key: local(value, torch) for key, value in map_location.items()}
        elif callable(map_location):
            wanted = map_location

            def map_location(storage, location):
                found = wanted(storage, "cpu" if location.startswith("cuda") else location)
                return storage if found is None else found

        elif map_location is None:
            # What was saved on a GPU would otherwise look for one.
            map_location = torch.device("cpu")
        else:
            map_location = local(map_location, torch)
        return original(f, map_location, *args, **kwargs)

    return load


def _compile(model=None, **options):
    """torch.compile as a promise kept elsewhere: the model runs on its slice as it is."""
    if model is None:
        return lambda function: function
    return model


def _remember_constructors() -> None:
    """`with torch.device("meta"):` knows torch's functions by identity: let it note the real ones first."""
    try:
        from torch.utils._device import _device_constructors
    except ImportError:
        return
    _device_constructors()


def _patch_contexts(torch) -> None:
    """`with torch.device("cuda"):` makes CPU tensors."""
    try:
        from torch.utils._device import DeviceContext, _device_constructors
    except ImportError:
        return
    begin = DeviceContext.__init__
    run = DeviceContext.__torch_function__

    def __init__(self, device):
        begin(self, local(torch.device(device), torch))
        self.cuda = is_cuda(torch.device(device), torch)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = run(self, function, types, args, kwargs)
        if self.cuda and isinstance(made, torch.Tensor) and function in _device_constructors():
            births.mark(made)
        return made

    DeviceContext.__init__ = __init__
    DeviceContext.__torch_function__ = __torch_function__


def _patch_script(torch) -> None:
    """TorchScript's compiler knows torch's functions by identity: show it the real ones."""
    try:
        from torch.jit import _builtins
    except ImportError:
        return
    find = _builtins._find_builtin
    real = {id(getattr(owner, name)): original for (owner, name), original in _originals.items()}

    def find_builtin(function):
        return find(real.get(id(function), function))

    _builtins._find_builtin = find_builtin


def _patch_cuda(torch) -> None:
    properties = types.SimpleNamespace(
        name=NAME,
        major=8,
        minor=0,
        total_memory=TOTAL_BYTES,
        multi_processor_count=108,
        is_integrated=False,
        is_multi_gpu_board=False,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        warp_size=32,
        gcnArchName="",
    )
    answers = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": NAME,
        "get_device_properties": properties,
        "get_device_capability": (8, 0),
        "get_arch_list": ["sm_80"],
        "is_bf16_supported": True,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_cached": 0,
        "mem_get_info": (TOTAL_BYTES, TOTAL_BYTES),
        "memory_summary": "",
        "memory_stats": {},
        "utilization": 0,
        "initial_seed": 0,
    }
    for name in NOTHING_TO_DO:
        answers[name] = None
    for name, value in answers.items():
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _answer(getattr(torch.cuda, name), value))
    for name in LEGACY:
        if hasattr(torch, name):
            setattr(torch.cuda, name, getattr(torch, name))
    torch.cuda._is_in_bad_fork = _never
    torch.cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    torch.cuda.set_rng_state = _nothing
    torch.cuda.get_rng_state_all = lambda: [torch.get_rng_state()]
    torch.cuda.set_rng_state_all = _nothing
    from . import streams

    streams.patch(torch)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _answer(getattr(torch.cuda.nvtx, name), None))
    torch.nn.DataParallel.forward = _one_device(torch.nn.DataParallel.forward)


def _one_device(original):
    """nn.DataParallel on the one GPU that there seems to be."""

    @functools.wraps(original)
    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs) if len(self.device_ids) <= 1 else original(self, *inputs, **kwargs)

    return forward


def _answer(original, value):
    @functools.wraps(original)
    def answer(*args, **kwargs):
        return value

    return answer
