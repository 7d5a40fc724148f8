"""One Unix uid for each function, so that neither processes nor files of two functions meet."""

from __future__ import annotations

from datastore import keys
from datastore.store import Store
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey


class Uids:
    """Numbers `first` to `first + count - 1`, each owned by at most one function."""

    def __init__(self, store: Store, first: int, count: int) -> None:
        self._store = store
        self._first = first
        self._count = count
        self._owners: dict[int, str] = {}
        self._last = first - 1

    async def load(self) -> None:
        """Read back who owns what."""
        for key, value in (await self._store.list_prefix(keys.UIDS)).items():
            self._owners[int(keys.last(key))] = str(value["function"])
        self._last = max(self._owners, default=self._last)

    async def allocate(self, function: FunctionKey) -> int:
        """A uid for `function`, its old one if it still has one; raises SlicewiseError `unavailable` when none is left.

        Numbers go round, so that one is not used again right after its function went.
        """
        for number, owner in self._owners.items():
            if owner == str(function):
                return number
        for step in range(1, self._count + 1):
            number = self._first + (self._last - self._first + step) % self._count
            if number in self._owners:
                continue
            if await self._store.put_if_absent(keys.uid(number), {"function": str(function)}):
                self._owners[number] = str(function)
                self._last = number
                return number
        raise SlicewiseError("unavailable", f"All {self._count} uids for functions are in use.")

    async def free(self, number: int) -> None:
        """Give a uid back once nothing runs under it any more."""
        await self._store.delete(keys.uid(number))
        self._owners.pop(number, None)
