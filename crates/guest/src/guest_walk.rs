//! The check of a guest in the pool, by `pool check`: its header and its frame words. It opens no disk.

use std::collections::HashMap;

use ferrite_pool::check::TagFindings;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Pool, Role, Stream, Tag};

use crate::frame_word::FrameContent;
use crate::guest_header::GuestHeader;
use crate::guest_layout::GuestLayout;

/// Reports the damage of the guest in `tag`.
pub(crate) fn walk(pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
    let layout = match GuestLayout::read(tag) {
        Ok(layout) => layout,
        Err(error) => return findings.error(error.to_string(), None),
    };
    let map = Stream::new(&tag.extents, Role::MAP);
    let Some(head) = map.locate(0) else { return };
    let header = GuestHeader { memory: pool.memory(), at: head.at, salt: layout.salt() };
    if header.tie(layout.identity).is_none() {
        findings.error("the generation of its disk is damaged: restore a backup", Some(head.at));
    }
    if header.address().is_none() {
        findings.error("the address of its disk is damaged: restore a backup", Some(head.at));
    }
    // Another process may move a page between two loads.
    let is_used = pool.user_of(tag).is_some();
    let mut known = HashMap::new();
    for frame in 0..layout.frames {
        let Some(place) = map.locate(PAGE + frame * 8) else { return };
        let content = FrameContent::decode(layout.salt(), pool.memory().load_word(place.at));
        let content = content.filter(|content| content.page().is_none_or(|page| page < layout.pages()));
        let Some(content) = content else {
            findings.error(format!("the word of frame {frame} is damaged: restore a backup"), Some(place.at));
            continue;
        };
        if let Some(page) = content.page()
            && let Some(other) = known.insert(page, frame)
            && !is_used
        {
            let what = format!("the frames {other} and {frame} both have page {page}: restore a backup");
            findings.error(what, Some(place.at));
        }
    }
}
