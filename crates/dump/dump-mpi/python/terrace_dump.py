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
"""

import ctypes
import os

from mpi4py import MPI

NEXT = NEWEST = -1
_OK, _NOT_FOUND = 0, 1


class Error(Exception):
    """A failed call; ``status`` is its status in ``terrace_dump.h``."""

    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def _library():
    library = ctypes.CDLL(os.environ.get("TERRACE_DUMP_LIBRARY", "libterrace_dump.so"))
    # An MPI_Comm is a pointer or an int, which depends on the MPI library.
    comm = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32)
    arguments = {
        "open": [comm, text, ctypes.POINTER(handle)],
        "set_replicas": [handle, ctypes.c_uint32],
        "set_chunks": [handle, ctypes.c_uint32, ctypes.c_bool],
        "protect": [handle, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t],
        "unprotect": [handle, ctypes.c_uint32],
        "checkpoint": [handle, text, ctypes.c_int64, number],
        "restart": [handle, text, ctypes.c_int64, number],
    }
    for name, types in arguments.items():
        getattr(library, "terrace_dump_" + name).argtypes = types
    library.terrace_dump_close.argtypes = [handle]
    library.terrace_dump_close.restype = None
    library.terrace_dump_last_error.restype = text
    return library, comm


class Checkpoints:
    """The ranks of a communicator with their nodes' stores. Every method but ``protect`` and ``unprotect`` is collective."""

    def __init__(self, comm, store, replicas=3, chunk=4096, by_content=False):
        self._library, kind = _library()
        self._regions = {}
        self._handle = ctypes.c_void_p()
        comm = kind.from_address(MPI._addressof(comm))
        self._call("open", comm, os.fsencode(store), ctypes.byref(self._handle), handle=False)
        self._call("set_replicas", replicas)
        self._call("set_chunks", chunk, by_content)

    def _call(self, name, *arguments, handle=True):
        given = (self._handle, *arguments) if handle else arguments
        status = getattr(self._library, "terrace_dump_" + name)(*given)
        if status != _OK:
            raise Error(status, self._library.terrace_dump_last_error().decode())

    def protect(self, region, array):
        """Protects an array, or any object with a contiguous writable buffer, under a number."""
        if hasattr(array, "mask") and hasattr(array, "filled"):
            # Its buffer contains only its data: a restart would not restore the mask.
            raise TypeError("a masked array has two buffers; protect its .data and its .mask, each under a number of its own")
        view = memoryview(array).cast("B")
        start = ctypes.addressof(ctypes.c_char.from_buffer(view)) if len(view) else None
        self._call("protect", region, start, len(view))
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

    def close(self):
        """Closes the checkpoints; call it before MPI_Finalize."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._library.terrace_dump_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
