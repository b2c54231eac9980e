//! The errno of each error of the file system.

use ferrite_fs::Error;
use ferrite_fuse::note_failed;
use fuser::Errno;

/// Returns `why`, with which this thread's request fails.
pub(super) fn failed(why: Errno) -> Errno {
    note_failed();
    why
}

/// Returns the errno of `error`, with which this thread's request fails; `EIO` for damage and for errors of the pool and of SSDs.
pub(super) fn errno(error: &Error) -> Errno {
    note_failed();
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::TooManyLinks => Errno::EMLINK,
        Error::NoSpace | Error::AttributesFull => Errno::ENOSPC,
        Error::FileTooBig => Errno::EFBIG,
        Error::Invalid(_) => Errno::EINVAL,
        Error::NotPermitted(_) => Errno::EPERM,
        Error::ReadOnly => Errno::EROFS,
        Error::NoAttribute => Errno::ENODATA,
        Error::AttributeTooBig => Errno::E2BIG,
        Error::PastEnd => Errno::ENXIO,
        Error::Stale => Errno::ESTALE,
        Error::Unsupported(_) => Errno::EOPNOTSUPP,
        Error::Corrupt { .. } | Error::Pool(_) | Error::Refused(_) | Error::Ssd(_) | Error::Away(_) => Errno::EIO,
    }
}
