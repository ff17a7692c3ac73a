"""The process in the sandbox in tests: does what it is asked, however bad."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from scenarios.runs.sandbox import Answer, Note, limit_memory, serve


def answer(request: Answer, note: Note) -> Answer:
    what = request["what"]
    if what == "hang":
        time.sleep(3600)
    if what == "spin":
        while True:
            pass
    if what == "fault":
        ctypes.string_at(0)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "leave":
        os._exit(7)
    if what == "say":
        os.write(2, b"x" * 200_000 + b"\nsomething\nwhat went wrong\n\n")
        os._exit(3)
    if what == "memory":
        try:
            return {"size": len(bytearray(1 << 40))}
        except MemoryError:
            return {"memory": True}
    if what == "print":
        print("this is no answer")
        os.system("echo nor this")
    note({"heard": what})
    return {"what": what, "process": os.getpid()}


def prepare(request: Answer, note: Note) -> None:
    began = time.process_time()
    while request["what"] == "prepare" and time.process_time() - began < 1.5:
        pass


if __name__ == "__main__":
    limit_memory(8 << 30)
    serve(answer, prepare)
