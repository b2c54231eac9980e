//! Contradictions that no third fact decides, where a repair would have to guess.
//!
//! - FD1. While anything is in doubt, a repair changes nothing: what is named stays named, and nothing is freed. The
//!   file system can be mounted to be read only, and its files copied out.
//! - FD2. In doubt is a chunk without a place, or one that all its names need for something else; an inode of an
//!   unknown kind or of another than all its names say; a free inode that still names pages; a file none of whose
//!   words fits the height of its index; a directory whose tree does not lead to a whole name, or names what is no page
//!   of its own; and a page of words or of names, or a superpage, that two words name.
//! - FD3. Tables are repaired by counting: the only chunk without a place lies in the only place without a chunk, chunk
//!   0 has inodes, and a chunk of an unknown kind is what all its names need.

use std::collections::BTreeSet;

use ferrite_pool::layout::CHUNK;

use super::inodes::InodeSurvey;
use super::{CheckedMedia, Fix, FsFinding};
use crate::format::layout::{ChunkKind, is_in_use};

/// The last finding of a file system in which something is in doubt.
const ADVICE: &str = "a repair would have to guess, so it changes nothing here: mount the file system with `ferrite fs \
                      mount --read-only`, copy out what can be read, and restore the rest from a backup";

/// Returns all errors: those of the tables, or if there are none, those of all that is found through them.
pub(super) fn look(media: &CheckedMedia<'_>) -> Vec<FsFinding> {
    let mut wrong = tables(media);
    if wrong.is_empty() {
        let survey = InodeSurvey::of(media);
        wrong = survey.misnamed().map(|(number, kinds)| misnamed(media, number, kinds)).collect();
        if wrong.is_empty() {
            wrong = survey.into_wrong();
        }
    }
    if let Some(at) = wrong.iter().find(|wrong| wrong.is_in_doubt).map(|wrong| wrong.at) {
        wrong.iter_mut().for_each(|wrong| wrong.fix = None);
        wrong.push(FsFinding::new(ADVICE, at));
    }
    wrong
}

/// Returns the errors of the tables that they show by themselves.
fn tables(media: &CheckedMedia<'_>) -> Vec<FsFinding> {
    let mut wrong: Vec<FsFinding> = media.unplaced.iter().map(|number| unplaced(media, *number)).collect();
    let kind_at = media.map.descriptor(0);
    if media.kind_said(0) != Some(ChunkKind::Inodes) {
        let what = "chunk 0 has the root directory, and is not said to have inodes";
        wrong.push(FsFinding::new(what, kind_at).fixed_by(Fix::word(kind_at, ChunkKind::Inodes as u64, "it has them")));
    }
    wrong
}

/// Returns the error of chunk `number`, which has no place (FD3).
fn unplaced(media: &CheckedMedia<'_>, number: u64) -> FsFinding {
    let (word, said) = (media.map.chunk_word(number), media.places_said(number));
    let other = media.bases.iter().position(|base| base.is_some_and(|base| said.contains(&base)));
    let what = match other {
        Some(other) => format!("chunks {other} and {number} are said to lie in one place"),
        None => format!("chunk {number} is said to lie where nothing of the file system is"),
    };
    let is_used = number == 0 || is_in_use(media.memory, media.map.descriptor(number));
    let mut spare = media.spare.iter();
    match (spare.next(), spare.next()) {
        (Some(place), None) if media.unplaced.len() == 1 && other.is_none() => {
            FsFinding::new(what, word).fixed_by(Fix::word(word, place / CHUNK + 1, "it lies in the one place left"))
        }
        (None, None) if !is_used => FsFinding::new(what, word).fixed_by(Fix::word(word, 0, "there is none")),
        _ => FsFinding::doubt(what, word),
    }
}

/// Returns the error of chunk `number`, of which nothing is named but as one of `kinds`, which it is not (FD2).
fn misnamed(media: &CheckedMedia<'_>, number: u64, kinds: &BTreeSet<u8>) -> FsFinding {
    let at = media.map.descriptor(number);
    let kind = kinds.first().filter(|_| kinds.len() == 1 && media.kind_said(number).is_none());
    match kind {
        Some(kind) => FsFinding::new(format!("chunk {number} is of an unknown kind"), at).fixed_by(Fix::word(
            at,
            u64::from(*kind),
            "it is of the kind that all its names need",
        )),
        None => FsFinding::doubt(format!("chunk {number} is not of the kind that all its names need"), at),
    }
}
