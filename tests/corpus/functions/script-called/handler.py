"""Wraps a repository's own command line."""

import os
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "predict.py")


def handle(event, context):
    words = event.body.decode().split()
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=25)
    if done.returncode:
        return {"statusCode": 500, "body": done.stderr}
    return done.stdout.strip()
