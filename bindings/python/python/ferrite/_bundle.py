"""Maps and queues that change together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ContextManager, Iterator, List, Mapping, Optional, Tuple, overload

from . import _ferrite
from ._objects import Bytes, MapChange, Object, raw

_PAGE = 256


class MapView(Mapping[bytes, bytes]):
    """The current content of a map of a bundle, in the order of the keys. Transactions of the bundle change it."""

    def __init__(self, bundle: "Bundle", name: str) -> None:
        self._bundle = bundle
        self._name = name

    def __getitem__(self, key: Bytes) -> bytes:
        found = self._bundle._native.get(self._name, raw(key))
        if found is None:
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        return self._bundle._native.map_len(self._name)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.pages())

    def pages(self, after: Optional[bytes] = None) -> Iterator[Tuple[bytes, bytes]]:
        """Iterate over keys and values in order, from the first key greater than ``after`` on."""
        while True:
            page = self._bundle._native.page(self._name, after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]


class QueueView(Sequence[bytes]):
    """The current content of a queue of a bundle, oldest entry first. Transactions of the bundle change it."""

    def __init__(self, bundle: "Bundle", name: str) -> None:
        self._bundle = bundle
        self._name = name

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> List[bytes]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        found = self._bundle._native.entry(self._name, at) if 0 <= at < len(self) else None
        if found is None:
            raise IndexError("no such entry")
        return found

    def __len__(self) -> int:
        return self._bundle._native.queue_len(self._name)


class _MapPart:
    """The part of a change that concerns one map."""

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
    """A queue with the changes of a transaction. A pop returns the entry at once, before the transaction is applied."""

    def __init__(self, change: _ferrite.Change, view: QueueView, name: str) -> None:
        self._change = change
        self._view = view
        self._name = name
        # The remaining range of the old entries, and the new entries before and behind it.
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
        """Remove the right entry and return it."""
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
        """Remove the left entry and return it."""
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
        """Remove all entries."""
        self._change.ensure_open()
        self._change.clear_queue(self._name)
        self._start, self._end, self._front, self._back = 0, 0, [], []


class BundleTransaction:
    """Changes of several members. They are applied together at the end of the ``with``, or discarded by an exception.

    A transaction belongs to one thread; transactions of other threads wait. Its members show the state after the
    changes made so far.
    """

    def __init__(self, bundle: "Bundle", change: _ferrite.Change) -> None:
        self._bundle = bundle
        self._change = change
        self._maps: "dict[str, MapChange]" = {}
        self._queues: "dict[str, QueueChange]" = {}

    def map(self, name: str) -> MapChange:
        """Return the map of that name. It can be changed like a dict."""
        self._change.ensure_open()
        if name not in self._maps:
            self._maps[name] = MapChange(MapView(self._bundle, name), _MapPart(self._change, name))
        return self._maps[name]

    def queue(self, name: str) -> QueueChange:
        """Return the queue of that name. It can be changed like a deque."""
        self._change.ensure_open()
        if name not in self._queues:
            self._queues[name] = QueueChange(self._change, QueueView(self._bundle, name), name)
        return self._queues[name]


class Bundle(Object):
    """Durable maps and queues that change together. A transaction is atomic over all of them, also across a crash.

    A member needs no creation: it exists as long as it has content.
    """

    _native: _ferrite.Bundle

    def __init__(self, name: str, native: _ferrite.Bundle) -> None:
        super().__init__(name)
        self._native = native

    def map(self, name: str) -> MapView:
        """Return a view of the map of that name for reading."""
        return MapView(self, name)

    def queue(self, name: str) -> QueueView:
        """Return a view of the queue of that name for reading."""
        return QueueView(self, name)

    def maps(self) -> List[str]:
        """Return the names of the maps that have content."""
        return self._native.maps()

    def queues(self) -> List[str]:
        """Return the names of the queues that have content."""
        return self._native.queues()

    def transaction(self) -> ContextManager[BundleTransaction]:
        """Start a transaction for a ``with``; the target of its ``as`` records the changes.

        The changes are applied together at the end of the ``with``, or discarded if it ends by an exception. There is
        one transaction at a time.
        """
        change = _ferrite.Change()
        return _ferrite.Transaction(self._native, change, BundleTransaction(self, change))

    def checkpoint(self) -> None:
        """Take a checkpoint now, so that the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """Return descriptions of the damaged parts that a salvage gave up."""
        return self._native.losses()
