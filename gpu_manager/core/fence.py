"""Epoch fencing: a leader that was deposed cannot place anything any more."""

from __future__ import annotations

from proto.types.errors import SlicewiseError


class Fence:
    """The highest epoch heard of on this node; it never falls."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch

    def admit(self, epoch: int) -> None:
        """Let a new binding of `epoch` in; raises SlicewiseError `stale_epoch` for one of an earlier leader."""
        if epoch < self.epoch:
            raise SlicewiseError(
                "stale_epoch", f"The binding was made by an earlier scheduler (epoch {epoch}, now {self.epoch})."
            )
        self.epoch = epoch
