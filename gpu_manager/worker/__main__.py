"""`python -m gpu_manager.worker --socket-fd N`: the zygote of all workers of one (Python, torch).

An exec'd process of its own, started by the GPU manager with one end of a socket pair. It imports
torch and nothing of gRPC, runs not one tensor operation, and forks a worker for each `fork` frame.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys


def main() -> int:
    """Parse the flags, import torch, serve until the GPU manager goes away."""
    parser = argparse.ArgumentParser(prog="python -m gpu_manager.worker")
    parser.add_argument("--socket-fd", type=int, required=True, help="inherited end of a SOCK_SEQPACKET pair")
    parser.add_argument("--cpu", action="store_true", help="no slice of this node is a GPU's")
    parser.add_argument("--hide", action="append", default=[], help="folder of which workers see what they are given")
    arguments = parser.parse_args()
    manager = socket.socket(fileno=arguments.socket_fd)
    manager.set_inheritable(False)
    # numpy's OpenBLAS would start threads at import, and a process with threads must not fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["KERAS_BACKEND"] = "torch"  # what comes to a worker is a torch module
    from gpu_manager.worker import zygote

    zygote.prepare()
    return zygote.serve(manager, arguments.cpu, arguments.hide)


if __name__ == "__main__":
    sys.exit(main())
