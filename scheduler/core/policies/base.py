"""What a policy is: it looks at the state and names the next request to bind, or nobody.

The core asks again after each decision until the policy has none, so a policy decides one thing at a
time and changes nothing itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from scheduler.core.requests import Request
    from scheduler.core.slices import Slice
    from scheduler.core.state import State

Parameter = int | float | str


@dataclass(frozen=True, slots=True)
class Decision:
    """Bind `request` to `slice` now. `local`: into the local queue of a busy slice."""

    request: Request
    slice: Slice
    reason: str
    local: bool = False


class Policy(ABC):
    """One scheduling policy; construct it through the registry, which validates its parameters."""

    name: ClassVar[str]
    needs_batch: ClassVar[bool] = False  # cannot decide before the batch size is known

    @abstractmethod
    def decide(self, state: State) -> Decision | None:
        """The next binding, or None when nothing is to be done until the next event."""

    def parameters(self) -> dict[str, Parameter]:
        """Name and parameters, as they are given to the registry."""
        return {"name": self.name}
