"""Owns a pool and serves a file system of it with one file, whose reads it never answers; and has the kernel forget its page."""
import ctypes, fcntl, os, struct, sys, threading

POINT, POOL, USER = sys.argv[1], sys.argv[2], int(sys.argv[3])
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, INIT, OPENDIR, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 17, 26, 27, 36, 42
ENOSYS, NOTIFY_INVAL_INODE, DAY = 38, 2, 86400

lock = open(POOL, "r+b")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
how = f"fd={fuse},rootmode=40700,user_id={USER},group_id={USER},allow_other"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(f"{POOL}:files".encode(), POINT.encode(), b"fuse.ferrite", 6, how.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))
os.setuid(USER)
print("mounted", flush=True)


def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 4096)
    return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def answer(opcode, node):
    if opcode == INIT:
        return struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", 2, 0, DAY, DAY, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<Q2I", DAY, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return bytes(16)
    if opcode == STATFS:
        return bytes(80)
    return None


def forget(node):
    print("forgets", flush=True)
    os.write(fuse, struct.pack("<IiQQqq", 40, NOTIFY_INVAL_INODE, 0, node, 0, 0))


def serve():
    while True:
        request = os.read(fuse, 1 << 17)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == READ:
            threading.Thread(target=forget, args=(node,)).start()
        elif opcode not in (FORGET, INTERRUPT, BATCH_FORGET):
            said = answer(opcode, node)
            error, said = (0, said) if said is not None else (-ENOSYS, b"")
            os.write(fuse, struct.pack("<IiQ", 16 + len(said), error, unique) + said)


threading.Thread(target=serve).start()
if "headless" in sys.argv:
    libc.pthread_exit(None)
