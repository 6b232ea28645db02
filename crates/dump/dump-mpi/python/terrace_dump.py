"""Checkpoints of mpi4py programs in Terrace's stores, with ``libterrace_dump.so`` and ctypes.

    from mpi4py import MPI
    import numpy as np
    from terrace_dump import Checkpoints

    field, step = np.zeros(100_000), np.zeros(1, np.int64)
    with Checkpoints(MPI.COMM_WORLD, store) as checkpoints:
        checkpoints.protect(0, field)
        checkpoints.protect(1, step)
        checkpoints.restart("field")        # None if there is no checkpoint yet
        checkpoints.checkpoint("field")
        checkpoints.begin("field")          # the same, while the program continues
        checkpoints.wait()
"""

import ctypes
import operator
import os

from mpi4py import MPI

NEXT = NEWEST = -1
_OK, _NOT_FOUND = 0, 1


class Error(Exception):
    """A failed call; ``status`` is its status in ``terrace_dump.h``."""

    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def _checked(kind):
    """Returns an integer type of C that refuses what is out of its range. ctypes would cut it off."""

    class Checked(kind):
        @classmethod
        def from_param(cls, value):
            value = operator.index(value)
            if kind(value).value != value:
                raise ValueError(f"{value} is out of the range of {kind.__name__}")
            return kind(value)

    return Checked


def _library():
    library = ctypes.CDLL(os.environ.get("TERRACE_DUMP_LIBRARY", "libterrace_dump.so"))
    # An MPI_Comm is a pointer or an int, which depends on the MPI library.
    comm = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32)
    u32, u64, i64 = _checked(ctypes.c_uint32), _checked(ctypes.c_uint64), _checked(ctypes.c_int64)
    arguments = {
        "open": [comm, text, ctypes.POINTER(handle)],
        "set_replicas": [handle, u32],
        "set_keep": [handle, u32],
        "set_flow": [handle, text, u32],
        "set_chunks": [handle, u32, ctypes.c_bool],
        "protect": [handle, u32, ctypes.c_void_p, ctypes.c_size_t],
        "protect_same": [handle, u32, ctypes.c_void_p, ctypes.c_size_t],
        "protect_part": [handle, u32, ctypes.c_void_p, ctypes.c_size_t, u64],
        "unprotect": [handle, u32],
        "checkpoint": [handle, text, i64, number],
        "restart": [handle, text, i64, number],
        "is_archived": [handle, ctypes.POINTER(ctypes.c_bool)],
        "set_limit": [handle, u32],
        "prepare": [handle],
        "begin": [handle, text, i64],
        "wait": [handle, ctypes.POINTER(ctypes.c_int64)],
        "test": [handle, ctypes.POINTER(ctypes.c_bool), ctypes.POINTER(ctypes.c_int64)],
    }
    for name, types in arguments.items():
        getattr(library, "terrace_dump_" + name).argtypes = types
    library.terrace_dump_close.argtypes = [handle]
    library.terrace_dump_close.restype = None
    library.terrace_dump_last_error.restype = text
    return library, comm


class Checkpoints:
    """The ranks of a communicator with their nodes' stores. Every method but ``protect``, ``unprotect``,
    ``is_archived``, ``prepare`` and ``test`` is collective."""

    def __init__(self, comm, store, replicas=3, chunk=4096, by_content=False, limit=1, keep=0, flow_to=None, flow_keep=0):
        self._library, kind = _library()
        self._regions = {}
        self._handle = ctypes.c_void_p()
        comm = kind.from_address(MPI._addressof(comm))
        self._call("open", comm, os.fsencode(store), ctypes.byref(self._handle), handle=False)
        self._call("set_replicas", replicas)
        self._call("set_chunks", chunk, by_content)
        self._call("set_limit", limit)
        self._call("set_keep", keep)
        self._call("set_flow", os.fsencode(flow_to) if flow_to is not None else None, flow_keep)

    def _call(self, name, *arguments, handle=True):
        given = (self._handle, *arguments) if handle else arguments
        try:
            status = getattr(self._library, "terrace_dump_" + name)(*given)
        except ctypes.ArgumentError as error:
            raise ValueError(f"{name}: {error}") from None
        if status != _OK:
            raise Error(status, self._library.terrace_dump_last_error().decode())

    def protect(self, region, array, start=None, same=False):
        """Protects an array, or any object with a contiguous writable buffer, under a number.

        Only as many ranks as made a checkpoint can restart, unless each region is the ``same`` on all ranks, or a part of an
        array that all ranks share under the number: its bytes from ``start`` on. Then any number of ranks can, each with any part.
        """
        if same and start is not None:
            raise ValueError("a region that is the same on all ranks is no part of another one")
        if hasattr(array, "mask") and hasattr(array, "filled"):
            # Its buffer contains only its data: a restart would not restore the mask.
            raise TypeError("a masked array has two buffers; protect its .data and its .mask, each under a number of its own")
        if getattr(getattr(array, "dtype", None), "hasobject", False):
            raise TypeError("an array of Python objects has only their addresses, which mean nothing later; protect arrays of numbers")
        view = memoryview(array).cast("B")
        address = ctypes.addressof(ctypes.c_char.from_buffer(view)) if len(view) else None
        if start is not None:
            self._call("protect_part", region, address, len(view), start)
        else:
            self._call("protect_same" if same else "protect", region, address, len(view))
        # The view prevents a reallocation of the buffer.
        self._regions[region] = view

    def unprotect(self, region):
        """Ends the protection of a region."""
        self._call("unprotect", region)
        self._regions.pop(region, None)

    def checkpoint(self, name, version=NEXT):
        """Dumps the protected regions. Returns the version."""
        made = ctypes.c_uint32()
        self._call("checkpoint", name.encode(), version, ctypes.byref(made))
        return made.value

    def prepare(self):
        """Makes memory for the copies of ``begin`` ready, in a thread, as large as the regions that are protected now. Not collective."""
        self._call("prepare")

    def begin(self, name, version=NEXT):
        """Begins a checkpoint: returns once the regions are copied, and a thread dumps the copy."""
        self._call("begin", name.encode(), version)

    def wait(self):
        """Waits for all checkpoints that have begun. Returns the newest version that was made, or None."""
        made = ctypes.c_int64()
        self._call("wait", ctypes.byref(made))
        return None if made.value < 0 else made.value

    def test(self):
        """Returns whether all checkpoints that have begun have ended on this rank, and the newest version as ``wait`` does."""
        ended, made = ctypes.c_bool(), ctypes.c_int64()
        self._call("test", ctypes.byref(ended), ctypes.byref(made))
        return ended.value, None if made.value < 0 else made.value

    def restart(self, name, version=NEWEST):
        """Restores the protected regions. Returns the version, or None if there is no checkpoint."""
        restored = ctypes.c_uint32()
        try:
            self._call("restart", name.encode(), version, ctypes.byref(restored))
        except Error as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return restored.value

    def is_archived(self):
        """Returns whether the last ``restart`` took its version from ``flow_to``, not from the nodes' stores. Fails unless one succeeded."""
        archived = ctypes.c_bool()
        self._call("is_archived", ctypes.byref(archived))
        return archived.value

    def close(self):
        """Closes the checkpoints; call it before MPI_Finalize."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._library.terrace_dump_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
