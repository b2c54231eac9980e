"""Begins as root, on the folder that is named, of the pool that is named, and then gives rights up as it is told: what is left
to it of the pool, and what becomes of its files."""

import ctypes
import fcntl
import mmap
import os
import socket
import stat
import struct
import sys
import threading

folder, pool, how = sys.argv[1:4]
NOBODY = 65534
SYS_SETRESUID = 117
F_GET_SEALS = 1034
often = 100
its = os.stat(pool)


def left():
    """What this process could do to the pool by what it has: mappings, descriptors, connections to the owner."""
    with open("/proc/self/maps") as maps:
        found = [line for line in maps if pool in line or "ferrite-words" in line]
    for fd in range(3, 1 << 16):
        try:
            info = os.fstat(fd)
        except OSError:
            continue
        if (info.st_dev, info.st_ino) == (its.st_dev, its.st_ino):
            found.append(f"{fd}: the pool")
        if stat.S_ISSOCK(info.st_mode):
            try:
                socket.socket(fileno=os.dup(fd)).recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                found.append(f"{fd}: a connection")
        if info.st_nlink == 0 and stat.S_ISREG(info.st_mode):
            try:
                fcntl.fcntl(fd, F_GET_SEALS)
                found.append(f"{fd}: shared words")
            except OSError:
                pass
    return found


def path(name):
    return os.path.join(folder, f"{how}-{name}")


def fill(fd, word):
    for i in range(often):
        os.pwrite(fd, word % i, i * 4)


def has(fd, word):
    return os.pread(fd, 1 << 20, 0) == b"".join(word % i for i in range(often))


def give_up_unseen():
    """By instructions of its own, which no library can notice: this is what a library that forgets to would leave."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # mov eax, number; mov edi, user; mov esi, edi; mov edx, edi; syscall; ret
    code.write(struct.pack("<BIBI", 0xB8, SYS_SETRESUID, 0xBF, NOBODY) + b"\x89\xfe\x89\xfa\x0f\x05\xc3")
    place = ctypes.addressof(ctypes.c_char.from_buffer(code))
    assert ctypes.CFUNCTYPE(ctypes.c_int)(place)() == 0


def give_up():
    os.setgroups([])
    os.setgid(NOBODY)
    if how == "number":
        assert ctypes.CDLL(None).syscall(SYS_SETRESUID, NOBODY, NOBODY, NOBODY) == 0
    elif how == "real":
        os.setreuid(NOBODY, NOBODY)
    elif how == "all":
        os.setresuid(NOBODY, NOBODY, NOBODY)
    else:
        os.setuid(NOBODY)


def goes_on(written, log):
    """By what is open since before, and anew."""
    assert has(written, b"%04d")
    fill(written, b"%04x")
    assert has(written, b"%04x")
    for i in range(often):
        os.write(log, b"late")
    assert os.lseek(log, 0, os.SEEK_CUR) == 8 * often
    assert os.pread(log, 1 << 20, 0) == b"soon" * often + b"late" * often
    own = os.open(path("own"), os.O_RDWR)
    fill(own, b"%04d")
    assert has(own, b"%04d")


def amid_copies(written):
    """Threads of which each writes and reads a part of its own."""
    stop, wrong = threading.Event(), []

    def work(part):
        count = 0
        while not stop.is_set():
            count += 1
            for page in range(16):
                at, bytes = (part * 16 + page + 1) * 4096, bytes_of(part, count)
                os.pwrite(written, bytes, at)
                if os.pread(written, 4096, at) != bytes:
                    wrong.append((part, page, count))

    def bytes_of(part, count):
        return b"%04d%04d" % (part, count % 10000) * 512

    crew = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    [thread.start() for thread in crew]
    give_up()
    now = left()
    stop.set()
    [thread.join() for thread in crew]
    assert not wrong, wrong[:5]
    os.ftruncate(written, 4 * often)
    return now


written = os.open(path("written"), os.O_RDWR | os.O_CREAT, 0o644)
log = os.open(path("log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
os.close(os.open(path("own"), os.O_CREAT | os.O_WRONLY, 0o666))
os.chown(path("own"), NOBODY, NOBODY)
os.ftruncate(written, 65 * 4096 if how == "threads" else 0)
fill(written, b"%04d")
for i in range(often):
    os.write(log, b"soon")
print("before", sorted(line.split()[-1] for line in left()))
if how == "kept":
    os.setuid(0)
    os.setgid(0)
    os.seteuid(NOBODY)
    fill(written, b"%04d")
    os.seteuid(0)
    print("after", len(left()) > 4)
    goes_on(written, log)
elif how == "unseen":
    give_up_unseen()
    print("user", os.getresuid(), "after", left())
elif how == "child":
    child = os.fork()
    if child == 0:
        give_up()
        os._exit(len(left()))
    assert os.waitpid(child, 0)[1] == 0
    print("after", len(left()) > 4)
    goes_on(written, log)
else:
    if how == "threads":
        after = amid_copies(written)
    else:
        give_up()
        after = left()
    print("after", after)
    goes_on(written, log)
    print("late", left())
