//! Copies between memory of the caller and pages of a file.

use ferrite_memory::Scheme;
use ferrite_pool::layout::PAGE;

use crate::Result;
use crate::file::{FileLayer, index};
use crate::format::inode::Inode;

/// Copies bytes of the file from byte `at` on, all before its end.
pub(crate) fn copy_out(files: &FileLayer, inode: &Inode, at: u64, into: &mut [u8]) -> Result<()> {
    let end = at + into.len() as u64;
    index::parts(files, inode, at / PAGE..end.div_ceil(PAGE), |part| {
        let start = (part.first * PAGE).max(at);
        let stop = ((part.first + part.pages) * PAGE).min(end);
        let into = &mut into[(start - at) as usize..(stop - at) as usize];
        match part.at {
            Some(place) => files.memory().load(place + start - part.first * PAGE, into),
            None => files.memory().load_hole(into),
        }
        Ok(true)
    })
}

/// Stores what goes to pages that the file has.
pub(crate) fn store_there(files: &FileLayer, inode: &Inode, at: u64, from: &[u8]) -> Result<()> {
    let end = at + from.len() as u64;
    index::parts(files, inode, at / PAGE..end.div_ceil(PAGE), |part| {
        let Some(place) = part.at else { return Ok(true) };
        let start = (part.first * PAGE).max(at);
        let stop = ((part.first + part.pages) * PAGE).min(end);
        let bytes = &from[(start - at) as usize..(stop - at) as usize];
        files.memory().store(place + start - part.first * PAGE, bytes, Scheme::Nt);
        Ok(true)
    })
}
