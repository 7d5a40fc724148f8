"""Does to its process what handlers must not do to the platform."""

import os
import time


def handle(event, context):
    wish = event.body.decode()
    if wish == "raise":
        raise RuntimeError("the reason is in the log")
    if wish.startswith("exit"):
        os._exit(int(wish.removeprefix("exit")))
    if wish == "leave":
        raise SystemExit(3)
    if wish == "fork":
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        return {"body": str(child)}
    if wish == "print":
        for number in range(40_000):
            print(f"{number:07d} " + "x" * 92)
        return {"body": "printed"}
    if wish == "forever":
        time.sleep(3600)
    return {"body": "fine"}
