//! Every possible image, one after the other, each once.
//!
//! Pending stores, and pending writes of disks, are cut into *sites*, which land independently and share no byte. Each site lists the distinct
//! contents it may have, and the images are the product of the sites. No image comes twice, because sites do not
//! overlap and no site lists a content twice. Going from one image to the next changes one site most of the time.

use std::collections::HashSet;

use crate::line::{LineBytes, PendingLine};
use crate::possible::Possible;

/// A part of the image, and its possible contents. The first content is the durable one.
pub(crate) enum Site {
    /// Words of a line of the memory.
    Words { at: u64, words: u8, contents: Vec<LineBytes> },
    /// An atomic unit of a disk.
    Unit { disk: usize, at: u64, contents: Vec<Vec<u8>> },
}

impl Site {
    pub fn choices(&self) -> usize {
        match self {
            Self::Words { contents, .. } => contents.len(),
            Self::Unit { contents, .. } => contents.len(),
        }
    }

    /// Copies content `choice` into the image of `possible`. The bytes of other sites stay.
    pub fn put(&self, choice: usize, possible: &mut Possible) {
        match self {
            Self::Words { at, words, contents } => {
                put_words(*words, &contents[choice], possible.image.line_mut(*at));
            }
            Self::Unit { disk, at, contents } => possible.disks[*disk].image.write(*at, &contents[choice]),
        }
    }
}

fn put_words(mut words: u8, content: &LineBytes, line: &mut LineBytes) {
    while words != 0 {
        let at = words.trailing_zeros() as usize * 8;
        line[at..at + 8].copy_from_slice(&content[at..at + 8]);
        words &= words - 1;
    }
}

/// Returns the sites of `possible`, or `None` if they make more than `images_max` images.
pub(crate) fn sites(possible: &Possible, images_max: u64) -> Option<Vec<Site>> {
    let (mut sites, mut images) = (Vec::new(), 1u64);
    for (&at, line) in &possible.lines {
        let first = sites.len();
        let image = possible.image.line(at);
        let words = changing_words(line, image);
        let cached = line.stores.iter().filter(|store| store.is_cached()).fold(0, |all, store| all | store.words());
        if cached & words != 0 {
            let words = cached & words;
            sites.push(Site::Words { at, words, contents: line_contents(line, image, words, images_max)? });
        }
        for word in (0..8).filter(|word| words & !cached & 1 << word != 0) {
            sites.push(Site::Words { at, words: 1 << word, contents: word_contents(line, image, word) });
        }
        images = multiplied(images, &sites[first..], images_max)?;
    }
    for (disk, possible) in possible.disks.iter().enumerate() {
        let first = sites.len();
        let unit = |(at, contents)| Site::Unit { disk, at, contents };
        sites.extend(possible.units()?.into_iter().map(unit));
        images = multiplied(images, &sites[first..], images_max)?;
    }
    sites.retain(|site| site.choices() > 1);
    Some(sites)
}

/// Returns `images` times the choices of `sites`, or `None` if that is more than `images_max`.
fn multiplied(images: u64, sites: &[Site], images_max: u64) -> Option<u64> {
    let product = sites.iter().fold(images, |product, site| product.saturating_mul(site.choices() as u64));
    (product <= images_max).then_some(product)
}

/// Returns the words that some pending store would change.
fn changing_words(line: &PendingLine, image: &LineBytes) -> u8 {
    let changes = |word: u8| {
        line.stores.iter().any(|store| {
            let mut after = *image;
            store.land(&mut after, 1 << word);
            after != *image
        })
    };
    (0..8).filter(|&word| changes(word)).fold(0, |words, word| words | 1 << word)
}

/// Returns the contents of a word that has only non-temporal stores: any prefix of them lands (CP2).
fn word_contents(line: &PendingLine, image: &LineBytes, word: u8) -> Vec<LineBytes> {
    let mut contents = vec![*image];
    let mut content = *image;
    for store in line.stores.iter().filter(|store| store.words() & 1 << word != 0) {
        store.land(&mut content, 1 << word);
        if !contents.contains(&content) {
            contents.push(content);
        }
    }
    contents
}

/// Returns the contents of a line with cached stores to `words`: CP1, times CP2 for the words with both kinds of stores
/// (CP3). Returns `None` if there are more than `max`.
fn line_contents(line: &PendingLine, image: &LineBytes, words: u8, max: u64) -> Option<Vec<LineBytes>> {
    let cached = cached_landings(line, words, max)?;
    let meeting = meeting_landings(line, words, max / cached.len() as u64)?;
    let (mut contents, mut known) = (Vec::new(), HashSet::new());
    for nt in &meeting {
        for landed in &cached {
            let landed: Vec<u8> = landed.iter().zip(nt).map(|(cached, nt)| cached | nt).collect();
            let content = line.content(image, &landed);
            if known.insert(content) {
                contents.push(content);
            }
        }
    }
    Some(contents)
}

/// Returns the words of each store that land, for each way the cached stores may land. No store lands in the first
/// way.
fn cached_landings(line: &PendingLine, words: u8, max: u64) -> Option<Vec<Vec<u8>>> {
    let mut landed = vec![0; line.stores.len()];
    let mut landings = vec![landed.clone()];
    for (number, store) in line.stores.iter().enumerate().filter(|(_, store)| store.is_cached()) {
        let all = store.words() & words;
        let mut some = 0u8;
        while some != all {
            some = some.wrapping_sub(all) & all;
            landed[number] = some;
            landings.push(landed.clone());
        }
        if landings.len() as u64 > max {
            return None;
        }
    }
    Some(landings)
}

/// Returns the words of each store that land, for each way the non-temporal stores to `words` may land. The ways are
/// the product over words of the prefixes of each.
fn meeting_landings(line: &PendingLine, words: u8, max: u64) -> Option<Vec<Vec<u8>>> {
    let mut landings = vec![vec![0u8; line.stores.len()]];
    for word in (0..8).filter(|word| words & 1 << word != 0) {
        let stores = line.stores.iter().enumerate();
        let nt = stores.filter(|(_, store)| !store.is_cached() && store.words() & 1 << word != 0);
        let (mut grown, mut added) = (landings.clone(), landings);
        for (number, _) in nt {
            added.iter_mut().for_each(|landed| landed[number] |= 1 << word);
            grown.extend_from_slice(&added);
        }
        landings = grown;
        if landings.len() as u64 > max {
            return None;
        }
    }
    Some(landings)
}
