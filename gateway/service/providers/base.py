"""What the gateway needs from whatever runs functions: processes here, containers or pods elsewhere.

The gateway says what it wants of a function as a whole (`Wish`) as often as it likes; a provider
makes it so and reports replicas as they come and go. Where replicas run is the provider's affair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field

from gateway.core.gpu import ImageFacts
from gateway.core.log_query import LogQuery
from gateway.core.records import FunctionRecord
from gateway.core.status import ReplicaFacts
from proto.types.identity import FunctionKey


@dataclass(frozen=True)
class Wish:
    """All that a provider is told of one function: the record, its secrets' values, its replicas' credential."""

    record: FunctionRecord
    credential: str
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class LogLine:
    """One line that a replica wrote."""

    name: str
    namespace: str
    instance: str
    unix_ns: int
    text: str


Listener = Callable[[FunctionKey, tuple[ReplicaFacts, ...]], None]


class Provider(ABC):
    """Methods raise SlicewiseError; `unavailable` means nobody answered in time."""

    name: str  # as /system/info says it
    orchestration: str

    @abstractmethod
    async def start(self, wishes: list[Wish], listener: Listener) -> None:
        """Make `wishes` so, undo what else runs, and tell `listener` of replicas from now on."""

    @abstractmethod
    async def close(self) -> None:
        """Stop talking; what runs goes on."""

    @abstractmethod
    def health(self) -> str:
        """Why nothing can be deployed now, "" when all is well."""

    @abstractmethod
    def check(self, record: FunctionRecord) -> None:
        """Raises SlicewiseError `bad_function` for constraints that cannot be met."""

    @abstractmethod
    async def apply(self, wish: Wish) -> None:
        """Deploy, update or scale. Returns once it is accepted, not once replicas are ready."""

    @abstractmethod
    async def remove(self, key: FunctionKey) -> None:
        """Stop all replicas of a function."""

    @abstractmethod
    async def resolve_image(self, name: str) -> ImageFacts:
        """What an image is; raises SlicewiseError `bad_image` for an unknown one."""

    @abstractmethod
    def logs(self, key: FunctionKey, query: LogQuery) -> AsyncGenerator[LogLine, None]:
        """The lines of a function's replicas, then new ones while `query.follow`."""
