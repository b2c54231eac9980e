"""Regions: the memory of a guest."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from types import TracebackType
from typing import Iterator, Optional, Tuple, Type, Union

from . import _ferrite
from ._objects import Bytes, raw

_regions: "weakref.WeakSet[Region]" = weakref.WeakSet()


class Region:
    """The memory of a guest, which is larger than its part of the pool. It is like a bytearray of a fixed length.

    Stores are in memory that a crash loses. ``persist`` names the bytes that are to last, and ``barrier`` makes them
    durable. Bytes that were not persisted do not become durable. Slices copy bytes in and out, and have no step.

    If another process owns the pool, the region is opened through that process; otherwise this process becomes the owner.
    The guest has no other user until the region is closed. A forked child cannot use the region of its parent.
    """

    def __init__(self, pool: "Union[str, os.PathLike[str]]", name: str) -> None:
        self._native = _ferrite.Region.open(os.fspath(pool), name)
        self._name = name
        self._size = self._native.size()
        _regions.add(self)

    def _range(self, at: int, size: Optional[int]) -> Tuple[int, int]:
        size = self._size - at if size is None else size
        if at < 0 or size < 0 or at + size > self._size:
            raise ValueError(f"{size} bytes from byte {at} on are not within the {self._size} bytes of the region")
        return at, size

    def _slice(self, key: slice) -> Tuple[int, int]:
        if not isinstance(key, slice):
            raise TypeError("a region is read and written by slices")
        first, last, step = key.indices(self._size)
        if step != 1:
            raise ValueError("a slice of a region has no step")
        return first, max(last - first, 0)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice) -> bytes:
        return self._native.load(*self._slice(key))

    def __setitem__(self, key: slice, value: Bytes) -> None:
        at, size = self._slice(key)
        data = raw(value)
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes do not fit into a slice of {size}: a region has a fixed length")
        self._native.store(at, data)

    def persist(self, at: int = 0, size: Optional[int] = None) -> None:
        """Name ``size`` bytes from byte ``at`` on, by default all that follow, for the next barrier.

        The barrier makes them durable with their content at this call, or a later one.
        """
        self._native.persist(*self._range(at, size))

    def barrier(self) -> None:
        """Make all bytes durable that any thread has persisted.

        After a failure call it again: nothing is forgotten. The call waits while other threads have locked some of the
        bytes, and is refused for a thread that holds a lock.
        """
        self._native.barrier()

    @contextmanager
    def lock(self, at: int, size: int) -> Iterator[None]:
        """Lock bytes for this thread in a ``with``: no barrier copies a persisted range that has some of them."""
        self._native.lock(*self._range(at, size))
        try:
            yield
        finally:
            self._native.unlock(at, size)

    @property
    def closed(self) -> bool:
        """Whether the region is closed."""
        return self._native.is_closed()

    def close(self) -> None:
        """Close the region. Stores that no barrier made durable are lost. A second close has no effect."""
        self._native.close()

    def __enter__(self) -> "Region":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ferrite.Region {self._name!r}{' closed' if self.closed else ''}>"


def _abandon_regions() -> None:
    """Give up all open regions in a forked child: they belong to the parent."""
    for region in list(_regions):
        region._native.abandon()


os.register_at_fork(after_in_child=_abandon_regions)
