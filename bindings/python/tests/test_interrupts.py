"""Tests that an interrupt (Ctrl-C) between any two steps of Python leaves everything usable."""

import random
import signal
import sys
import threading

import pytest


def interrupted(work, at):
    """Runs ``work`` with an interrupt before opcode ``at``, also inside this package.

    Returns whether it was reached.
    """
    left = at

    def trace(frame, event, _):
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        return work()
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.settrace(None)


def in_another_thread(work):
    told = []
    thread = threading.Thread(target=lambda: told.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    assert told, "it hangs"
    return told[0]


def each_opcode(work, then):
    """Interrupts ``work`` before each of its opcodes, and calls ``then`` each time while the traceback still exists."""
    at, last = 0, None
    while last is None or isinstance(last, KeyboardInterrupt):
        at += 1
        last = interrupted(lambda: work(at), at)
        then(at)
    assert at > 50, "it has opcodes"


def test_a_transaction_that_is_interrupted_anywhere_gives_its_turn_back(store):
    bundle = store.bundle("it")
    seen = set()

    def work(at):
        with bundle.transaction() as t:
            t.map("one")[b"k"] = b"%d" % at
            t.queue("two").clear()
            t.queue("two").append(b"%d" % at)
        return "done"

    def again():
        with bundle.transaction() as t:
            t.map("again")[b"k"] = b"v"
        return True

    def then(at):
        one, two = bundle.map("one").get(b"k"), list(bundle.queue("two"))
        assert two == ([one] if one else [])
        seen.add(one == b"%d" % at)
        assert in_another_thread(again) and again()

    each_opcode(work, then)
    assert seen == {False, True}


@pytest.fixture
def alarm():
    """Interrupts the main thread after some seconds, and again if a callback of a weak reference lost the interrupt."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, 0.2 if seconds else 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_signals_amid_transactions_lock_no_bundle(store, alarm):
    bundle, delays, kept = store.bundle("it"), random.Random(1), []
    for _ in range(1000):
        try:
            alarm(delays.uniform(0.00002, 0.0004))
            while True:
                with bundle.transaction():
                    pass
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)
        finally:
            alarm(0)
    with bundle.transaction() as t:
        t.map("x")[b"k"] = b"last"
    assert bundle.map("x")[b"k"] == b"last"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_amid_openings_leave_no_object_open_and_unknown(store, alarm):
    delays, kept = random.Random(1), []
    for number in range(200):
        try:
            alarm(delays.uniform(0.00002, 0.01))
            while True:
                store.map("m", log_bytes="16K")[b"k"] = b"%d" % number
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)
        finally:
            alarm(0)

    def again():
        store.map("m")[b"k"] = b"last"
        return store.map("m")[b"k"]

    assert in_another_thread(again) == again() == b"last"


def test_who_waits_for_a_turn_can_be_interrupted(store, alarm):
    bundle, begun, end = store.bundle("it"), threading.Event(), threading.Event()

    def hold():
        with bundle.transaction() as t:
            begun.set()
            end.wait(20)
            t.map("x")[b"k"] = b"first"

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    with pytest.raises(KeyboardInterrupt):
        alarm(0.05)
        with bundle.transaction():
            pass
    alarm(0)
    assert not end.is_set()
    end.set()
    with bundle.transaction() as t:
        assert t.map("x")[b"k"] == b"first"
    thread.join()
