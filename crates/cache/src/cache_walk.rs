//! The check of a cache in the pool, by `pool check`: its configuration, tables and buffers. It opens no member.

use std::collections::HashSet;

use ferrite_memory::Span;
use ferrite_pool::check::TagFindings;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Pool, Role, Stream, Tag, unseal};

use crate::cache_config::{CacheConfig, NumberedConfig, newest_config};
use crate::cache_layout::{CONFIG_SLOT, CacheLayout};
use crate::leb_table::{TableContent, decode_table};

/// Returns the configuration of the cache in `tag`, or `None` if it cannot be read. Opens nothing.
pub(crate) fn read_config(pool: &Pool, tag: &Tag) -> Option<CacheConfig> {
    let (map, salt) = (Stream::new(&tag.extents, Role::MAP), salt(pool, tag));
    Some(config_of(pool, &map, salt)?.config)
}

fn salt(pool: &Pool, tag: &Tag) -> u32 {
    let uuid = pool.superblock().uuid;
    tag.generation as u32 ^ u32::from_le_bytes(*uuid.first_chunk().expect("four bytes"))
}

fn config_of(pool: &Pool, map: &Stream, salt: u32) -> Option<NumberedConfig> {
    let first = map.locate(0)?.at;
    newest_config(pool.memory(), salt, [first, first + CONFIG_SLOT])
}

/// Reports the damage of the cache in `tag`.
pub(crate) fn walk(pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
    let layout = match CacheLayout::read(tag) {
        Ok(layout) => layout,
        Err(error) => return findings.error(error.to_string(), None),
    };
    let (map, salt) = (Stream::new(&tag.extents, Role::MAP), salt(pool, tag));
    let config = match config_of(pool, &map, salt) {
        Some(numbered) => numbered.config,
        None => {
            let at = map.locate(0).map(|span| span.at);
            return findings.error("its configuration does not verify: restore a backup of the pool", at);
        }
    };
    if !config.is_complete {
        findings.note("its creation did not end: `ferrite cache remove` removes it", None);
    }
    let mut tables = TableWalk { config: &config, sequences: HashSet::new(), places: HashSet::new() };
    let mut bytes = vec![0; layout.table_bytes() as usize];
    for number in 0..layout.tables {
        let in_chunk = layout.tables_per_chunk() as u32;
        let offset = u64::from(1 + number / in_chunk) * CHUNK + u64::from(number % in_chunk) * layout.table_bytes();
        let Some(Span { at, .. }) = map.locate(offset) else { continue };
        pool.memory().load(at, &mut bytes);
        let fault = match decode_table(salt, &layout, &bytes) {
            Ok(None) => None,
            Ok(Some(content)) => tables.fault(&content),
            Err(fault) => Some(fault.to_string()),
        };
        if let Some(fault) = fault {
            let advice = "restore a backup of the pool, or `ferrite cache forget` what the SSDs have";
            findings.error(format!("table {number}: {fault}: {advice}"), Some(at));
        }
    }
    let data = Stream::new(&tag.extents, Role::DATA);
    for buffer in 0..layout.buffers {
        let Some(Span { at, .. }) = data.locate(u64::from(buffer) * layout.buffer_bytes()) else { continue };
        let head = pool.memory().load_word(at);
        if head != 0 && unseal(salt, head).is_none() {
            findings
                .error(format!("the head of buffer {buffer} does not verify: restore a backup of the pool"), Some(at));
        }
    }
}

/// The sequences and places of the tables that were looked at.
struct TableWalk<'a> {
    config: &'a CacheConfig,
    sequences: HashSet<u64>,
    places: HashSet<(u8, u32)>,
}

impl TableWalk<'_> {
    /// Returns the contradiction of a table with the configuration or with an earlier table.
    fn fault(&mut self, content: &TableContent) -> Option<String> {
        if !self.sequences.insert(content.sequence) {
            return Some("it has the sequence of another table".into());
        }
        for place in content.places.iter().flatten() {
            let ssd = self.config.ssds.iter().find(|ssd| ssd.id == place.ssd);
            if ssd.is_some_and(|ssd| !(1..ssd.lebs).contains(&place.leb)) {
                return Some(format!("it names LEB {} of SSD {}, which does not exist", place.leb, place.ssd));
            }
            if !self.places.insert((place.ssd, place.leb)) {
                return Some(format!("it names LEB {} of SSD {}, as another table does", place.leb, place.ssd));
            }
        }
        let has_disk = |number: u8| self.config.disks.iter().any(|disk| disk.number == number);
        let strange = content.pages.iter().find(|page| page.word.live && !has_disk(page.word.key.disk()));
        strange.map(|page| format!("it names disk {}, which the cache does not have", page.word.key.disk()))
    }
}

#[cfg(test)]
mod tests;
