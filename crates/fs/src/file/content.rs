//! Copies between memory of the caller and pages of a file.

use ferrite_memory::Scheme;
use ferrite_pool::layout::PAGE;

use crate::error::AwayPages;
use crate::file::index::PartPlace;
use crate::file::{FileLayer, index};
use crate::format::inode::Inode;
use crate::format::word::AwayPage;
use crate::{Error, Result};

/// Copies bytes of the file from byte `at` on, all before its end. Returns the pages that were read from SSDs for it.
///
/// # Errors
/// [`Error::Away`] with the pages that have to be fetched.
pub(crate) fn copy_out(files: &FileLayer, inode: &Inode, at: u64, into: &mut [u8]) -> Result<Vec<AwayPage>> {
    let end = at + into.len() as u64;
    let (mut copied, mut wanted) = (Vec::new(), Vec::new());
    index::parts(files, inode, at / PAGE..end.div_ceil(PAGE), |part| {
        let start = (part.first * PAGE).max(at);
        let stop = ((part.first + part.pages) * PAGE).min(end);
        let into = &mut into[(start - at) as usize..(stop - at) as usize];
        match part.at {
            PartPlace::At(place) => {
                let from = place + start - part.first * PAGE;
                files.memory().load(from, into);
                files.space.shared_state.note_touched(from, into.len());
            }
            PartPlace::Missing => files.memory().load_hole(into),
            PartPlace::Away(page) => match files.fetched(page)? {
                Some(bytes) => {
                    into.copy_from_slice(&bytes[(start - part.first * PAGE) as usize..][..into.len()]);
                    copied.push(page);
                }
                None => wanted.push(page),
            },
        }
        Ok(true)
    })?;
    if wanted.is_empty() { Ok(copied) } else { Err(Error::Away(AwayPages(wanted))) }
}

/// Stores what goes to pages that the file has.
pub(crate) fn store_there(files: &FileLayer, inode: &Inode, at: u64, from: &[u8]) -> Result<()> {
    let end = at + from.len() as u64;
    index::parts(files, inode, at / PAGE..end.div_ceil(PAGE), |part| {
        let PartPlace::At(place) = part.at else { return Ok(true) };
        let start = (part.first * PAGE).max(at);
        let stop = ((part.first + part.pages) * PAGE).min(end);
        let bytes = &from[(start - at) as usize..(stop - at) as usize];
        let to = place + start - part.first * PAGE;
        files.memory().store(to, bytes, Scheme::Nt);
        files.space.shared_state.note_stored(to, bytes.len());
        Ok(true)
    })
}
