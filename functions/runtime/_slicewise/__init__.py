"""What Slicewise puts into a user's process: torch sees a GPU, and models run on a slice.

Standard library only, Python 3.9 and later; importing this package does nothing. The function's
server and its zygote use the four functions below, a user never has to.
"""

import os

PROTOCOL = 1


def activate() -> None:
    """Hook the imports of torch and of web frameworks, and patch at once what is imported already.

    Does nothing unless this process belongs to a GPU function (SLICEWISE_GPU=1, SLICEWISE_SOCKET set); a
    second call is without effect. To be called after a fork, not in a zygote.
    """
    if os.environ.get("SLICEWISE_GPU") != "1" or not os.environ.get("SLICEWISE_SOCKET"):
        return
    from . import hooks

    hooks.install()


def import_finished() -> None:
    """Say hello to the broker and register the models that the handler's import has moved to cuda.

    Raises SlicewiseError when a model cannot be registered; its message says why and what to do.
    """
    if os.environ.get("SLICEWISE_GPU") != "1" or not os.environ.get("SLICEWISE_SOCKET"):
        return
    import sys

    from . import channel

    channel.greet()
    if "torch" in sys.modules:
        from . import models

        models.register_marked()


def call_started(token: str) -> None:
    """From here on this context (thread or task) works for the invocation with this token."""
    from . import context

    context.call.set(token)


def call_finished() -> None:
    """This context works for no invocation any more."""
    from . import context

    context.call.set("")
