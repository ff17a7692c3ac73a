"""Native output is swallowed while a solver runs, and only then."""

import ctypes

from optimizer.common.solvers import quiet_stdout


def test_native_output_is_swallowed_and_python_output_is_not(capfd):
    native = ctypes.CDLL(None)
    print("before", flush=True)
    with quiet_stdout():
        native.puts(b"debugging of a solver")
    print("after", flush=True)
    native.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"
