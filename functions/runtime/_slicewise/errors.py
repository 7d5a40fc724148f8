"""What this package raises in a user's process: one class, a code and one sentence to act on."""


class SlicewiseError(RuntimeError):
    """A failure of the platform or of a call that cannot run on a slice; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self):
        return (SlicewiseError, (self.code, self.message))


def not_carried(what: str, way_out: str) -> SlicewiseError:
    """The error for what cannot be interposed: names the call and the way out."""
    return SlicewiseError("not_carried", "Slicewise cannot carry {}: {}".format(what, way_out))
