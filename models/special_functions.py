"""Special functions of SciPy without its package `scipy.special`.

The import of that package wraps each function for other array libraries and loads a tenth of NumPy that nobody uses.
This takes ten times as long as the modules with the functions themselves, which are loaded here. They are the same
functions.
"""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

_PACKAGE = "scipy.special"


def special_function(name: str) -> Any:
    """Return a universal function, such as `ndtri`."""
    return getattr(_module("_ufuncs"), name)


def cython_functions() -> ModuleType:
    """Return `scipy.special.cython_special`, the functions for compiled code."""
    return _module("cython_special")


@lru_cache
def _module(name: str) -> ModuleType:
    """Return a module of the package; the package itself is loaded only where the module needs it."""
    if _PACKAGE not in sys.modules:
        import scipy  # noqa: PLC0415 - most runs need none of it

        # An empty package in its place: the import system asks it for the path only.
        package = ModuleType(_PACKAGE)
        package.__path__ = [f"{path}/special" for path in scipy.__path__]
        sys.modules[_PACKAGE] = package
        try:
            return importlib.import_module(f"{_PACKAGE}.{name}")
        except (ImportError, AttributeError):  # another version of SciPy, which needs the package
            pass
        finally:
            del sys.modules[_PACKAGE]
    return importlib.import_module(f"{_PACKAGE}.{name}")
