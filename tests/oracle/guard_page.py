"""Memory that ends at a page which nobody may read: one byte too far, and the process dies."""

from __future__ import annotations

import ctypes
import mmap

__all__ = ["GuardedMemory"]

_PROT_NONE = 0


class GuardedMemory:
    """Room for values that end exactly where the forbidden page starts.

    >>> memory = GuardedMemory(100)
    >>> bytes(memory.place(b"abc"))
    b'abc'
    """

    def __init__(self, room: int) -> None:
        page = mmap.PAGESIZE
        self.size = -(-room // page) * page
        self._map = mmap.mmap(-1, self.size + page)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        guard = ctypes.c_void_p(self.address + self.size)
        if libc.mprotect(guard, ctypes.c_size_t(page), _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        self._view = memoryview(self._map)

    def place(self, value: bytes) -> memoryview:
        """The value's own bytes at the end of the room, read-only, without a copy behind it."""
        start = self.size - len(value)
        self._view[start : self.size] = value
        return self._view[start : self.size].toreadonly()

    def place_address(self, value: bytes) -> int:
        """The address of the value's first byte after placing it."""
        self.place(value)
        return self.address + self.size - len(value)
