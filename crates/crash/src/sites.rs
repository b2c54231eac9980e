//! Every image that is possible, one after the other, each once.
//!
//! What is pending is cut into *sites* that land independently and share no byte, each with the distinct contents it
//! may have. Their product is the set of images; since no two sites overlap and no site lists a content twice, no
//! image comes twice. Going from one image to the next changes one site most of the time.

use std::collections::HashSet;

use crate::line::{Content, Line};
use crate::pages::LINE_BYTES;
use crate::possible::Possible;

/// Bytes with a choice of contents; the first is what is durable.
pub(crate) struct Site {
    at: u64,
    /// 8 or 64.
    len: usize,
    contents: Vec<u8>,
}

impl Site {
    pub fn choices(&self) -> usize {
        self.contents.len() / self.len
    }

    /// Where it is and its bytes under `choice`.
    pub fn content(&self, choice: usize) -> (u64, &[u8]) {
        (self.at, &self.contents[choice * self.len..][..self.len])
    }
}

/// The sites of `possible`, or `None` where they make more than `images_max` images.
pub(crate) fn sites(possible: &Possible, images_max: u64) -> Option<Vec<Site>> {
    let (mut sites, mut images) = (Vec::new(), 1u64);
    for (&at, line) in &possible.lines {
        let first = sites.len();
        let image = possible.image.line(at);
        let words = changing_words(line, image);
        let cached = line.stores.iter().filter(|store| store.is_cached()).fold(0, |all, store| all | store.words());
        if cached & words != 0 {
            sites.push(Site {
                at,
                len: LINE_BYTES,
                contents: line_contents(line, image, (cached & words, images_max))?,
            });
        }
        for word in (0..8).filter(|word| words & !cached & 1 << word != 0) {
            sites.push(word_site(at, line, (image, word)));
        }
        for site in &sites[first..] {
            images = images.saturating_mul(site.choices() as u64);
        }
        if images > images_max {
            return None;
        }
    }
    sites.retain(|site| site.choices() > 1);
    Some(sites)
}

/// The words that some pending store would change.
fn changing_words(line: &Line, image: &Content) -> u8 {
    let changes = |word: u8| {
        line.stores.iter().any(|store| {
            let mut after = *image;
            store.land(&mut after, 1 << word);
            after != *image
        })
    };
    (0..8).filter(|&word| changes(word)).fold(0, |words, word| words | 1 << word)
}

/// A word that has only non-temporal stores: any prefix of them (P2).
fn word_site(at: u64, line: &Line, (image, word): (&Content, u8)) -> Site {
    let place = usize::from(word) * 8..usize::from(word) * 8 + 8;
    let mut content = *image;
    let mut contents: Vec<u8> = image[place.clone()].to_vec();
    for store in line.stores.iter().filter(|store| store.words() & 1 << word != 0) {
        store.land(&mut content, 1 << word);
        let new = &content[place.clone()];
        if !contents.chunks(8).any(|known| known == new) {
            contents.extend_from_slice(new);
        }
    }
    Site { at: at + place.start as u64, len: 8, contents }
}

/// The contents of a line with cached stores to `words`: P1, times P2 for the words where both kinds meet (P3).
fn line_contents(line: &Line, image: &Content, (words, max): (u8, u64)) -> Option<Vec<u8>> {
    let cached = cached_landings(line, words, max)?;
    let meeting = meeting_landings(line, words, max / cached.len() as u64)?;
    let (mut contents, mut known) = (Vec::new(), HashSet::new());
    for nt in &meeting {
        for landed in &cached {
            let landed: Vec<u8> = landed.iter().zip(nt).map(|(cached, nt)| cached | nt).collect();
            let content = line.content(image, &landed);
            if known.insert(content) {
                contents.extend_from_slice(&content);
            }
        }
    }
    Some(contents)
}

/// For each way the cached stores may land, the words that land of each store. Nothing landed comes first.
fn cached_landings(line: &Line, words: u8, max: u64) -> Option<Vec<Vec<u8>>> {
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

/// The same for the non-temporal stores to `words`: the product over words of the prefixes of each.
fn meeting_landings(line: &Line, words: u8, max: u64) -> Option<Vec<Vec<u8>>> {
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
