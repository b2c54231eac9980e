"""Maps and queues that change together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ContextManager, Iterator, List, Mapping, Optional, Tuple, overload

from . import _ferrite
from ._objects import Bytes, MapChange, Object, raw

_PAGE = 256


class MapView(Mapping[bytes, bytes]):
    """What a map of a bundle holds now, in the order of the keys; it changes by transactions of the bundle."""

    def __init__(self, of: "Bundle", name: str) -> None:
        self._of = of
        self._name = name

    def __getitem__(self, key: Bytes) -> bytes:
        found = self._of._native.get(self._name, raw(key))
        if found is None:
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        return self._of._native.map_len(self._name)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.pages())

    def pages(self, after: Optional[bytes] = None) -> Iterator[Tuple[bytes, bytes]]:
        """Keys and values in order, from the first key greater than ``after`` on."""
        while True:
            page = self._of._native.page(self._name, after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]


class QueueView(Sequence[bytes]):
    """What a queue of a bundle holds now, oldest first; it changes by transactions of the bundle."""

    def __init__(self, of: "Bundle", name: str) -> None:
        self._of = of
        self._name = name

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> List[bytes]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        found = self._of._native.entry(self._name, at) if 0 <= at < len(self) else None
        if found is None:
            raise IndexError("no such entry")
        return found

    def __len__(self) -> int:
        return self._of._native.queue_len(self._name)


class _Part:
    """Where the changes of one map go."""

    def __init__(self, change: _ferrite.Change, name: str) -> None:
        self._change = change
        self._name = name

    def put(self, key: bytes, value: bytes) -> None:
        self._change.put(self._name, key, value)

    def remove(self, key: bytes) -> None:
        self._change.remove(self._name, key)

    def clear(self) -> None:
        self._change.clear_map(self._name)

    def ensure_open(self) -> None:
        self._change.ensure_open()


class QueueChange:
    """A queue as it will be. What is taken away is told as if it had been already."""

    def __init__(self, change: _ferrite.Change, view: QueueView, name: str) -> None:
        self._change = change
        self._view = view
        self._name = name
        # What is left of what was there, and what comes before and behind it.
        self._start, self._end = 0, len(view)
        self._front: List[bytes] = []
        self._back: List[bytes] = []

    def __len__(self) -> int:
        return len(self._front) + self._end - self._start + len(self._back)

    def append(self, entry: Bytes) -> None:
        """Add an entry at the right end."""
        self._change.ensure_open()
        self._change.push(self._name, False, raw(entry))
        self._back.append(raw(entry))

    def appendleft(self, entry: Bytes) -> None:
        """Add an entry at the left end."""
        self._change.ensure_open()
        self._change.push(self._name, True, raw(entry))
        self._front.insert(0, raw(entry))

    def pop(self) -> bytes:
        """Take the right entry away; it."""
        self._change.ensure_open()
        if self._back:
            taken = self._back.pop()
        elif self._start < self._end:
            taken = self._view[self._end - 1]
            self._end -= 1
        elif self._front:
            taken = self._front.pop()
        else:
            raise IndexError("the queue is empty")
        self._change.pop(self._name, False)
        return taken

    def popleft(self) -> bytes:
        """Take the left entry away; it."""
        self._change.ensure_open()
        if self._front:
            taken = self._front.pop(0)
        elif self._start < self._end:
            taken = self._view[self._start]
            self._start += 1
        elif self._back:
            taken = self._back.pop(0)
        else:
            raise IndexError("the queue is empty")
        self._change.pop(self._name, True)
        return taken

    def clear(self) -> None:
        """Take every entry away."""
        self._change.ensure_open()
        self._change.clear_queue(self._name)
        self._start, self._end, self._front, self._back = 0, 0, [], []


class BundleTransaction:
    """Changes of several members, made together when the ``with`` ends, or not at all if it ends by an exception.

    For one thread; the others wait with theirs. What a member of it shows is what the transaction has made of it so far.
    """

    def __init__(self, of: "Bundle", change: _ferrite.Change) -> None:
        self._of = of
        self._change = change
        self._maps: "dict[str, MapChange]" = {}
        self._queues: "dict[str, QueueChange]" = {}

    def map(self, name: str) -> MapChange:
        """The map of that name, to be changed like a dict."""
        self._change.ensure_open()
        if name not in self._maps:
            self._maps[name] = MapChange(MapView(self._of, name), _Part(self._change, name))
        return self._maps[name]

    def queue(self, name: str) -> QueueChange:
        """The queue of that name, to be changed like a deque."""
        self._change.ensure_open()
        if name not in self._queues:
            self._queues[name] = QueueChange(self._change, QueueView(self._of, name), name)
        return self._queues[name]


class Bundle(Object):
    """Durable maps and queues that change together: a transaction is in all of them, or after a crash in none.

    A member needs no making, and is there while it holds something.
    """

    _native: _ferrite.Bundle

    def __init__(self, name: str, native: _ferrite.Bundle) -> None:
        super().__init__(name)
        self._native = native

    def map(self, name: str) -> MapView:
        """The map of that name, to be read."""
        return MapView(self, name)

    def queue(self, name: str) -> QueueView:
        """The queue of that name, to be read."""
        return QueueView(self, name)

    def maps(self) -> List[str]:
        """The names of maps that hold something."""
        return self._native.maps()

    def queues(self) -> List[str]:
        """The names of queues that hold something."""
        return self._native.queues()

    def transaction(self) -> ContextManager[BundleTransaction]:
        """Changes that are made together when the ``with`` ends, or not at all if it ends by an exception; one transaction
        at a time. They are those of what stands behind the ``as``."""
        change = _ferrite.Change()
        return _ferrite.Transaction(self._native, change, BundleTransaction(self, change))

    def checkpoint(self) -> None:
        """Take a checkpoint now: the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """What a salvage had to give up."""
        return self._native.losses()
