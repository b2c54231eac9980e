//! The tie between a pool and its backup images, which decides whether an image may replace another.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use super::image_format::ImageReader;
use super::kept_file::is_kept;
use crate::tie::{Generation, PoolSide, Tie, TieStamp, TieVerdict, compare, renew};
use crate::{Error, MemberKind, Pool, PoolMember, Result, show_uuid};

/// Returns the identity of the tie to the images of `pool`, as it is in a stamp.
fn identity(pool: &[u8; 16]) -> [u8; 16] {
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&pool[..8]);
    identity
}

/// Returns the pool's side of the tie to its images, or `None` before the first image with a stamp.
fn side(pool: &Pool) -> Result<Option<Tie>> {
    let uuid = pool.superblock().uuid;
    if pool.members()?.iter().all(|member| member.uuid != uuid) {
        return Ok(None);
    }
    Ok(Some(Tie { identity: identity(&uuid), ..pool.member_tie(uuid).load()? }))
}

/// Begins the generation of the next image of `pool`, durably (BK7). `nonce` is random.
pub(super) fn next_stamp(pool: &Pool, nonce: u16) -> Result<TieStamp> {
    let uuid = pool.superblock().uuid;
    if side(pool)?.is_none() {
        let (kind, generation, label) = (MemberKind::Image, Generation::first(nonce), "backup images".into());
        pool.add_member(&PoolMember { uuid, kind, generation, previous: None, size: 0, label })?;
    } else {
        let tie = pool.member_tie(uuid);
        renew(&tie, Some(tie.load()?.stamp()), nonce)?;
    }
    let generation = pool.member_tie(uuid).load()?.current;
    Ok(TieStamp { identity: identity(&uuid), generation })
}

/// Refuses to write an image of `pool` over the file at `path` if that is an image of another pool, or a later one than
/// this pool knows (BK7). A file that is not an image with a stamp may be replaced.
///
/// # Errors
/// [`Error::Occupied`] for a kept image, and with both sides and what to do; else as [`Pool`] says.
pub fn ensure_may_replace(pool: &Pool, path: &Path) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) if file.metadata().is_ok_and(|found| found.is_file()) => file,
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(ferrite_memory::Error::io(format!("looking into {}", path.display()), error).into());
        }
        _ => return Ok(()),
    };
    if is_kept(path)? {
        return Err(Error::Occupied(format!(
            "{} is a kept image, which `ferrite up --keep` brings up to date: name another file",
            path.display()
        )));
    }
    ensure_known(pool, &mut BufReader::new(file), path)
}

/// Refuses if `image`, which is at `path`, is an image that may not be replaced (BK7).
pub(super) fn ensure_known(pool: &Pool, image: &mut dyn Read, path: &Path) -> Result<()> {
    let Ok(ImageReader { header, .. }) = ImageReader::open(image) else { return Ok(()) };
    let ways_out = "name another file, or remove that one if what is in it is not wanted";
    ensure_stamp_known(pool, header.pool, header.stamp.as_ref(), &path.display().to_string(), ways_out)
}

/// Refuses if the image at `path` is of another pool, or later than `pool` knows: `of` and `stamp` are the image's
/// (BK7). The message ends with `ways_out`.
pub(super) fn ensure_stamp_known(
    pool: &Pool,
    of: [u8; 16],
    stamp: Option<&TieStamp>,
    path: &str,
    ways_out: &str,
) -> Result<()> {
    let uuid = pool.superblock().uuid;
    if of != uuid {
        return Err(Error::Occupied(format!(
            "{path} is an image of another pool, {}, and this pool is {}: {ways_out}",
            show_uuid(&of),
            show_uuid(&uuid)
        )));
    }
    let Some(stamp) = stamp else { return Ok(()) };
    let tie = side(pool)?;
    let verdict = tie.map_or(TieVerdict::ObjectLater, |tie| compare(&tie, Some(stamp)));
    if matches!(verdict, TieVerdict::Same | TieVerdict::Unfinished | TieVerdict::PoolLater) {
        return Ok(());
    }
    let known = tie.map_or("none".into(), |tie| tie.current.to_string());
    Err(Error::Occupied(format!(
        "{path} is an image of generation {} of this pool, which knows of {known} as the newest: this pool was restored from an \
         older image, or is a copy: {ways_out}",
        stamp.generation
    )))
}
