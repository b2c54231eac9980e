"""Every command of the protocol by libnbd, and what libnbd says wrong once its own checks are off."""

import errno
import sys

import nbd

URI = sys.argv[1]
K = 1024


def connected(strict=True, uri=URI):
    handle = nbd.NBD()
    handle.add_meta_context("base:allocation")
    if not strict:
        handle.set_strict_mode(0)
    handle.connect_uri(uri)
    return handle


def fails(number, call, *args, **named):
    try:
        call(*args, **named)
    except nbd.Error as error:
        assert error.errnum == number, f"{error.errnum}, not {number}: {error}"
        return
    raise AssertionError(f"{call.__name__}{args} succeeded")


def extents(handle, length, offset, flags=0):
    found = []
    handle.block_status(length, offset, lambda _, __, entries, ___: found.extend(entries), flags)
    return list(zip(found[::2], found[1::2]))


def good():
    h = connected()
    assert h.get_size() == 64 * K * K
    data = bytes(range(256)) * 256
    h.pwrite(data, 64 * K)
    assert h.pread(64 * K, 64 * K) == data
    pieces = []
    whole = h.pread_structured(64 * K, 64 * K, lambda _, at, what, __: pieces.append((at, what)), nbd.CMD_FLAG_DF)
    assert whole == data and pieces == [(64 * K, nbd.READ_DATA)]
    h.pwrite(data, 0, nbd.CMD_FLAG_FUA)
    h.zero(4 * K, 0, nbd.CMD_FLAG_FUA)
    h.zero(4 * K, 4 * K, nbd.CMD_FLAG_NO_HOLE)
    h.zero(4 * K, 8 * K, nbd.CMD_FLAG_FAST_ZERO)
    assert h.pread(12 * K, 0) == bytes(12 * K)
    assert extents(h, 64 * K, 0) == [(12 * K, 3), (52 * K, 0)]
    assert extents(h, 64 * K, 0, nbd.CMD_FLAG_REQ_ONE) == [(12 * K, 3)]
    h.trim(4 * K, 64 * K)
    h.trim(4 * K, 64 * K, nbd.CMD_FLAG_FUA)
    h.cache(64 * K, 0)
    h.flush()
    other = connected()
    assert other.pread(52 * K, 12 * K) == data[12 * K :]
    fails(errno.ENOTSUP, h.zero, 4 * K, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
    fails(errno.EIO, h.pread, 512, K * K)
    h.shutdown()
    other.shutdown()


def many_in_flight():
    h = connected()
    done = []
    buffers = [nbd.Buffer.from_bytearray(bytearray([n % 251 + 1]) * 4 * K) for n in range(200)]
    for n, buffer in enumerate(buffers):
        h.aio_pwrite(buffer, n * 4 * K, lambda error, n=n: done.append((n, error.value)) or 1)
    while len(done) < len(buffers):
        h.poll(-1)
    assert done == [(n, 0) for n in range(200)], "answered once each, in order"
    assert h.pread(4 * K, 199 * 4 * K) == bytes([200]) * 4 * K
    h.shutdown()


def wrong():
    h = connected(strict=False)
    end = h.get_size()
    fails(errno.EINVAL, h.pread, 512, end)
    fails(errno.ENOSPC, h.pwrite, bytes(512), end)
    fails(errno.ENOSPC, h.zero, 1024, end - 512)
    fails(errno.EINVAL, h.trim, 1024, end - 512)
    fails(errno.EINVAL, h.pread, 100, 0)
    fails(errno.EINVAL, h.pwrite, bytes(512), 1)
    fails(errno.EINVAL, h.pread, 512, 0, 1 << 9)
    fails(errno.EINVAL, h.trim, 512, 0, nbd.CMD_FLAG_DF)
    fails(errno.EINVAL, h.pread, 33 * K * K, 0)
    h.pwrite(bytes(512), 0)
    h.shutdown()


def read_only():
    h = connected(strict=False, uri=URI.replace("///", "///fixed"))
    assert h.is_read_only() and not h.can_trim() and not h.can_zero()
    fails(errno.EPERM, h.pwrite, bytes(512), 0)
    assert h.pread(8 * K, 0) == bytes(8 * K)
    h.shutdown()


def simple_replies():
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    h.connect_uri(URI)
    assert not h.get_structured_replies_negotiated() and not h.can_df()
    h.pwrite(b"\x55" * K * K, 8 * K * K)
    assert h.pread(K * K, 8 * K * K) == b"\x55" * K * K
    fails(errno.EIO, h.pread, 512, K * K)
    h.shutdown()


def haggling():
    h = nbd.NBD()
    h.set_opt_mode(True)
    h.connect_uri(URI)
    names = []
    assert h.opt_list(lambda name, text: names.append((name, text)) and 0) == 2
    assert names == [("disk0", "the first disk"), ("fixed", "")]
    contexts = []
    h.opt_list_meta_context(contexts.append)
    assert contexts == ["base:allocation"]
    h.set_export_name("nobody")
    fails(errno.ENOENT, h.opt_info)
    h.set_export_name("fixed")
    h.opt_go()
    assert h.get_size() == 8 * K
    h.shutdown()
    h = nbd.NBD()
    h.set_opt_mode(True)
    h.connect_uri(URI)
    h.opt_abort()


good()
many_in_flight()
wrong()
read_only()
simple_replies()
haggling()
print("done")
