"""Appends numbers to a log of its own and writes each to a place of a file that others share; tells those that are
done. When the file system goes away it opens both again once it is back, finds all that was done, and goes on."""

import errno
import os
import sys
import time

folder, name = sys.argv[1], int(sys.argv[2])
PLACES, LINE = 64, 16


def open_both(flags):
    return [os.open(f"{folder}/{file}", os.O_RDWR | flags) for file in ("places", f"log{name}")]


def at(number):
    return (name * PLACES + number % PLACES) * 4096


def text(number):
    return b"%015d\n" % number


def found(places, log):
    """The last number of the log, where all before it are there, and their places too as far as they were not reused."""
    lines = os.pread(log, os.fstat(log).st_size, 0)
    last = len(lines) // LINE - 1
    assert lines == b"".join(map(text, range(last + 1))), "the log"
    for number in range(max(0, last - PLACES + 1), last):
        assert os.pread(places, 4096, at(number)) == text(number) * 256, ("a place", number)
    return last


done = -1
both = open_both(os.O_CREAT)
while True:
    try:
        last = found(*both)
        assert last in (done, done + 1), (last, done, "what is there, and what was done")
        if last > done:
            os.pwrite(both[0], text(last) * 256, at(last))
            done = last
        os.lseek(both[1], 0, os.SEEK_END)
        while True:
            os.write(both[1], text(done + 1))
            os.pwrite(both[0], text(done + 1) * 256, at(done + 1))
            done += 1
            if done % 64 == 0:
                os.write(1, b"%d\n" % done)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        for fd in both:
            try:
                os.close(fd)
            except OSError:
                pass
        both = []
    while len(both) < 2:
        try:
            both = open_both(0)
        except OSError:
            time.sleep(0.005)
