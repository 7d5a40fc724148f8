"""The watchdog's variables of a deployment, checked before anything of it is remembered.

of-watchdog takes a default for what it cannot read, so that a misspelt limit shows only when a call
runs too long; here the deploy request is refused. What the limits do is the broker's.
"""

from __future__ import annotations

from gateway.core import durations
from gateway.core.bodies import refuse
from gateway.core.deployment import Deployment
from gateway.core.gpu import ImageFacts

_DURATIONS = ("exec_timeout", "read_timeout", "write_timeout")
_ABOVE_ZERO = "write_timeout"  # what is written for no time is never written; for the others zero means no limit
_COUNT = "max_inflight"


def check(deployment: Deployment, image: ImageFacts) -> None:
    """Raise SlicewiseError `bad_function` naming the variable that is no duration, or no whole number."""
    for name in (*_DURATIONS, _COUNT):
        where, text = f"envVars.{name}", deployment.env_vars.get(name)
        if text is None:
            where, text = f"the image's variable {name}", image.environment.get(name)
        if not text:
            continue
        if name == _COUNT:
            if not (text.strip().isascii() and text.strip().isdigit()):
                raise refuse(where, f"{text[:40]!r} is no whole number of calls; 0 means no limit")
            continue
        try:
            nanoseconds = durations.parse_ns(text)
        except ValueError as error:
            raise refuse(where, str(error)) from error
        if nanoseconds == 0 and name == _ABOVE_ZERO:
            raise refuse(where, "must be longer than nothing")
