"""Compares bundles with the types of Python that their members behave like."""

import signal
import threading
from collections import deque

import ferrite
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from test_objects import Reopening, data, keys
from test_store import other

names = st.sampled_from(["one", "two"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), names, keys, data),
        st.tuples(st.just("delete"), names, keys, st.none()),
        st.tuples(st.just("clear"), names, st.none(), st.none()),
        st.tuples(st.sampled_from(["append", "appendleft"]), names, data, st.none()),
        st.tuples(st.sampled_from(["pop", "popleft", "clear queue"]), names, st.none(), st.none()),
    ),
    max_size=12,
)


class Stop(Exception):
    pass


class Bundles(Reopening):
    def __init__(self):
        self.maps = {"one": {}, "two": {}}
        self.queues = {"one": deque(), "two": deque()}
        super().__init__()

    def open(self):
        self.bundle = self.store.bundle("it", log_bytes="16K")

    @rule(steps=steps, stops=st.booleans())
    def change(self, steps, stops):
        maps = {name: dict(map) for name, map in self.maps.items()}
        queues = {name: deque(queue) for name, queue in self.queues.items()}
        try:
            with self.bundle.transaction() as t:
                for what, name, key, value in steps:
                    map, queue = maps[name], queues[name]
                    if what == "set":
                        t.map(name)[key] = map[key] = value
                    elif what == "delete":
                        assert t.map(name).pop(key, None) == map.pop(key, None)
                    elif what == "clear":
                        t.map(name).clear()
                        map.clear()
                    elif what == "clear queue":
                        t.queue(name).clear()
                        queue.clear()
                    elif what.startswith("append"):
                        getattr(t.queue(name), what)(key)
                        getattr(queue, what)(key)
                    elif queue:
                        assert getattr(t.queue(name), what)() == getattr(queue, what)()
                    else:
                        with pytest.raises(IndexError):
                            getattr(t.queue(name), what)()
                    assert dict(t.map(name)) == map and len(t.queue(name)) == len(queue)
                if stops:
                    raise Stop
        except Stop:
            return
        self.maps, self.queues = maps, queues

    @rule()
    def checkpoint(self):
        self.bundle.checkpoint()

    @invariant()
    def is_what_it_was_made(self):
        for name in ("one", "two"):
            assert dict(self.bundle.map(name)) == self.maps[name] and list(self.bundle.map(name)) == sorted(self.maps[name])
            assert list(self.bundle.queue(name)) == list(self.queues[name])
        assert self.bundle.maps() == [name for name in ("one", "two") if self.maps[name]]
        assert self.bundle.queues() == [name for name in ("one", "two") if self.queues[name]]


def test_bundles_are_their_members(tmp_path):
    Reopening.folder = tmp_path
    run_state_machine_as_test(Bundles)


def test_a_transaction_that_is_over_changes_nothing(store):
    bundle = store.bundle("it")
    with bundle.transaction() as t:
        accounts, notices = t.map("accounts"), t.queue("notices")
        accounts[b"ada"] = b"1"
    for late in (lambda: accounts.clear(), lambda: notices.append(b"x"), lambda: t.map("other")):
        with pytest.raises(ValueError, match="has ended"):
            late()
    assert dict(bundle.map("accounts")) == {b"ada": b"1"} and len(bundle.queue("notices")) == 0
    with pytest.raises(ferrite.WrongTypeError):
        store.map("it")


def test_threads_take_each_entry_once_and_lose_no_change(store):
    bundle = store.bundle("it")
    with bundle.transaction() as t:
        t.queue("todo").clear()
        for number in range(400):
            t.queue("todo").append(b"%d" % number)
    taken = []

    def work():
        while True:
            with bundle.transaction() as t:
                if not len(t.queue("todo")):
                    return
                entry = t.queue("todo").popleft()
                t.map("count")[b"done"] = b"%d" % (int(t.map("count").get(b"done", b"0")) + 1)
            taken.append(int(entry))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(400)) and bundle.map("count")[b"done"] == b"400"


def test_a_transaction_is_begun_once_and_no_second_one_in_its_thread(store):
    bundle = store.bundle("it")
    transaction = bundle.transaction()
    with transaction as t:
        with pytest.raises(ValueError, match="end that first"):
            with bundle.transaction():
                pass
        with pytest.raises(ValueError, match="only once"):
            transaction.__enter__()
        t.map("m")[b"k"] = b"v"
    for late in (transaction.__enter__, lambda: transaction.__exit__(None, None, None)):
        with pytest.raises(ValueError, match="only once|has ended"):
            late()
    with bundle.transaction() as t:
        assert t.map("m")[b"k"] == b"v"


@pytest.mark.parametrize("role", ["owner", "tenant"])
def test_a_killed_process_leaves_a_transaction_in_all_members_or_none(tmp_path, role):
    path = tmp_path / "store"
    ferrite.create(path, "32M").close()
    owner = ferrite.open(path) if role == "tenant" else None
    code = """
bundle = store.bundle("bank", log_bytes="16K")
while True:
    with bundle.transaction() as t:
        ada, bob = (int(t.map("accounts").get(name, b"0")) for name in (b"ada", b"bob"))
        t.map("accounts").update({b"ada": b"%d" % (ada - 1), b"bob": b"%d" % (bob + 1)})
        t.queue("notices").append(b"%d" % bob)
        if len(t.queue("notices")) > 50:
            t.queue("notices").popleft()
    print(bob + 1, flush=True)
"""
    for _ in range(5):
        process = other(code, path)
        told = [int(process.stdout.readline()) for _ in range(60)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        with owner or ferrite.open(path) as store:
            bank = store.bundle("bank")
            ada, bob = (int(bank.map("accounts")[name]) for name in (b"ada", b"bob"))
            assert ada == -bob and told[-1] <= bob <= told[-1] + 1
            assert list(bank.queue("notices")) == [b"%d" % n for n in range(max(0, bob - 50), bob)]
        owner = ferrite.open(path) if role == "tenant" else None
    if owner:
        owner.close()
