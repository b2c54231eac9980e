//! The copies of a page on SSDs: which one to read, and whether what it gave is the page.

use std::sync::atomic::Ordering;

use ferrite_disk::Op;
use ferrite_memory::{Error, Span, planted};

use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_memory::sum_of;
use crate::member_queues::{Member, MemberRequest};
use crate::page_word::{BlockKey, LebPlace, PageRef};

impl CacheCore {
    /// Returns the copy of `page` on the SSD with the fewest requests in flight, of those whose bit is not in `tried` and that
    /// are not known to be bad.
    pub fn copy_of(&self, page: PageRef, tried: u8) -> Option<(usize, LebPlace)> {
        let (table, _) = self.memory.table_of(page);
        let places = self.memory.table_places(table)?;
        let bad = self.bad.of(page);
        let copies = places.iter().enumerate().filter_map(|(index, place)| Some((index, (*place)?)));
        let usable = copies.filter_map(|(index, place)| {
            let ssd = self.ssds.get(place.ssd).filter(|ssd| ssd.is_readable())?;
            if tried & 1 << index != 0 || bad & 1 << place.ssd != 0 {
                return None;
            }
            Some((ssd.in_flight.load(Ordering::Relaxed), index, place))
        });
        usable.min_by_key(|(in_flight, ..)| *in_flight).map(|(_, index, place)| (index, place))
    }

    /// Returns the request that reads `count` pages of the LEB `place` from `page` on.
    pub fn page_request(&self, place: LebPlace, page: PageRef, count: u32) -> MemberRequest {
        let (_, index) = self.memory.table_of(page);
        let span = Span::new(self.memory.layout().page_in_ssd(place.leb, index), u64::from(count) * BLOCK);
        if let Some(ssd) = self.ssds.get(place.ssd) {
            ssd.read_bytes.fetch_add(span.len, Ordering::Relaxed);
        }
        MemberRequest { member: Member::Ssd(place.ssd), op: Op::Read, span, buffer: vec![0; span.len as usize] }
    }

    /// Returns `bytes`, which the SSD `id` gave, if their sum is that of `page` (CA10). Else counts a mismatch or an error
    /// of the SSD, and notes that its copy is bad.
    pub fn verified<'a>(&self, page: PageRef, id: u8, bytes: Result<&'a [u8], &Error>) -> Option<&'a [u8]> {
        let is_good =
            |bytes: &[u8]| sum_of(bytes) == self.memory.page_sum(page) || planted!("cache: a sum is not compared");
        if let Ok(bytes) = bytes
            && is_good(bytes)
        {
            return Some(bytes);
        }
        let ssd = self.ssds.get(id)?;
        match bytes {
            Ok(_) if self.note_bad(page, &ssd) => self.weigh_ssd_error(&ssd, "bytes without the sum of their page"),
            Ok(_) => {}
            Err(error) => self.note_ssd_error(&ssd, error, false),
        }
        None
    }

    /// Ends a read of the LEB of `page`.
    pub fn end_reader(&self, page: PageRef) {
        let (table, _) = self.memory.table_of(page);
        self.memory.table_state(table).readers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the error of a dirty page that cannot be read.
    pub fn unreadable(&self, key: BlockKey, page: PageRef) -> Error {
        let (table, _) = self.memory.table_of(page);
        let places = self.memory.table_places(table).unwrap_or_default();
        let bad = self.bad.of(page);
        let right = places.iter().flatten().filter(|place| bad & 1 << place.ssd == 0);
        let ssds = right.filter_map(|place| self.ssds.get(place.ssd));
        let away = ssds.filter(|ssd| !ssd.is_readable()).map(|ssd| format!("SSD {} ({})", ssd.id, ssd.state().1));
        let away: Vec<String> = away.collect();
        match away.is_empty() {
            true => Error::Damaged(key.block() * BLOCK),
            false => Error::io(
                format!("the newest version of block {} is on {}", key.block(), away.join(" and ")),
                std::io::Error::other("not reached"),
            ),
        }
    }
}
