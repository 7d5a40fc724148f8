"""What holds around a model call in the user's process and matters on the slice: autocast, and a seed just set."""

import functools
import itertools
import sys

from . import context

_numbers = itertools.count(1)
_seeds = {}  # invocation token -> (number, seed) of its last torch.manual_seed
MAX_SEEDS = 256


def around():
    """{"autocast": dtype name, "seed": [number, seed]}, without what does not hold here."""
    torch = sys.modules["torch"]
    said = {}
    if torch.is_autocast_enabled("cuda"):
        said["autocast"] = str(torch.get_autocast_dtype("cuda"))[6:]
    seed = _seeds.get(context.call.get())
    if seed is not None:
        said["seed"] = list(seed)
    return said


def patch(torch) -> None:
    """Notice seeds; what an invocation seeds holds for its own calls."""
    torch.manual_seed = _noticed(torch.manual_seed)
    torch.random.manual_seed = torch.manual_seed
    for name in ("manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, _noticed(getattr(torch.cuda, name)))


def _noticed(original):
    @functools.wraps(original)
    def seed(seed):
        token = context.call.get()
        _seeds.pop(token, None)
        while len(_seeds) >= MAX_SEEDS:
            _seeds.pop(next(iter(_seeds)), None)
        _seeds[token] = (next(_numbers), int(seed))
        return original(seed)

    return seed
