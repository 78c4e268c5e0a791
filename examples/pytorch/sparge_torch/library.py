"""The shared library, loaded at the first call, and what it knows of each GPU."""

import functools
import os
import pathlib

import sparge_ctypes as abi

NAME = "libsparge.so"


def candidates():
    """Where the library is looked for, in order: (place, path)."""
    if os.environ.get("SPARGE_LIBRARY"):
        return [("SPARGE_LIBRARY", os.environ["SPARGE_LIBRARY"])]
    return [("beside the package", str(pathlib.Path(__file__).with_name(NAME))), ("the system's search path", NAME)]


@functools.cache
def library():
    """The loaded library. Refused: one that cannot be loaded, with every place that was tried and why it failed."""
    failures = []
    for place, path in candidates():
        try:
            return abi.Library(path)
        except (OSError, AttributeError) as error:  # AttributeError: an older library, which lacks a call
            failures.append(f"{place}: {error}")
    raise ImportError(f"sparge_torch cannot load {NAME}. Set SPARGE_LIBRARY to its path, copy it beside the package, or install it "
                      "where the loader looks. Tried " + "; ".join(failures))


@functools.cache
def device(index):
    """sparge_device of the CUDA device `index`."""
    return library().query_device(index)
