"""Run a part of a test without root's right to pass over the modes of files."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Callable
from typing import Any

CAPABILITY_VERSION_3 = 0x20080522  # of linux/capability.h: two sets of 32 capabilities, each three words


def unprivileged(work: Callable[[], Any]) -> Any:
    """What `work` returns; it must pickle. Where the tests run as root, `work` runs in a fork that has given up all
    capabilities: it still owns root's files, but their modes bind it."""
    if os.geteuid() != 0:
        return work()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _give_up_capabilities()
            result = (True, work())
        except BaseException as error:
            result = (False, f"{type(error).__name__}: {error}")
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(result, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        done, value = pickle.load(stream)
    os.waitpid(child, 0)
    assert done, value
    return value


def _give_up_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
