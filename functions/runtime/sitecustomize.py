"""Python runs this at start because its folder is on PYTHONPATH: it switches Slicewise on and steps aside.

A sitecustomize that the image brings itself, later on the path, runs as if ours were not there.
"""

import os
import sys


def _activate() -> None:
    if os.environ.get("SLICEWISE_GPU") != "1" or not os.environ.get("SLICEWISE_SOCKET"):
        return
    import _slicewise

    _slicewise.activate()


def _chain() -> None:
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    theirs = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = theirs
    spec.loader.exec_module(theirs)


_activate()
_chain()
