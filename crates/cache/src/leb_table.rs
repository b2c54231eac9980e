//! Tables: for each sealed LEB the blocks of its pages, in the pool.
//!
//! ```text
//! table   0 state   a checked word: sequence 48 | state 4 (0 free, 1 valid)
//!         8 places  see `page_word`
//!        16 crc u32 of count, keys and sums   20 count u32   24 zeros
//!        64 words [pages] u64   then sums [pages] u32
//! ```
//!
//! The sequence is the epoch of the buffer that the LEB was written from. A word of zeros is a free table.
//!
//! - LT1. A table is valid only after its words, sums and places are durable. While it is valid, its count, keys and sums
//!   do not change.
//! - LT2. One thread at a time stores into tables: the one that holds the cache's lock for stores.

use std::sync::atomic::{AtomicU8, AtomicU32};

use ferrite_memory::{Scheme, Span};
use ferrite_pool::{Result, seal, unseal};

use crate::cache_layout::{CacheLayout, HEAD};
use crate::cache_memory::CacheMemory;
use crate::page_word::{BlockKey, LebPlaces, PageRef, PageWord, decode_places, encode_places};

/// The number of tables whose states in DRAM are allocated together.
pub(crate) const GROUP: u32 = 64;

/// What DRAM knows of [`GROUP`] tables.
pub(crate) struct TableGroup {
    states: Box<[TableState]>,
    /// The hits of each page, of all tables.
    hits: Box<[AtomicU8]>,
}

/// The state of a table in DRAM.
#[derive(Default)]
pub(crate) struct TableState {
    /// Pages that the index names.
    pub live: AtomicU32,
    /// Dirty pages among them.
    pub dirty: AtomicU32,
    /// Reads of the LEB that are in flight.
    pub readers: AtomicU32,
}

impl TableGroup {
    /// Returns the group of tables without pages.
    pub fn new(layout: &CacheLayout) -> Self {
        let hits = GROUP * layout.pages();
        Self {
            states: (0..GROUP).map(|_| TableState::default()).collect(),
            hits: (0..hits).map(|_| AtomicU8::new(0)).collect(),
        }
    }
}

/// The content of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableContent {
    pub sequence: u64,
    pub places: LebPlaces,
    pub pages: Vec<TablePage>,
}

/// A page of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TablePage {
    pub word: PageWord,
    pub sum: u32,
}

/// The damage of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableFault {
    #[error("its state does not verify")]
    State,
    #[error("its places do not verify")]
    Places,
    #[error("its blocks and sums do not verify")]
    Pages,
    #[error("the word of page {0} does not verify")]
    Word(u32),
}

const VALID: u64 = 1;

/// Returns the checksum of the parts of `pages` that do not change while the table is valid.
fn pages_crc(salt: u32, pages: &[TablePage]) -> u32 {
    let mut bytes = vec![0; 4 + pages.len() * 12];
    let (count, entries) = bytes.split_at_mut(4);
    count.copy_from_slice(&(pages.len() as u32).to_le_bytes());
    for (entry, page) in entries.as_chunks_mut::<12>().0.iter_mut().zip(pages) {
        let key = PageWord { live: false, dirty: false, lost: false, hits: 0, ..page.word };
        entry[..8].copy_from_slice(&key.encode(0).to_le_bytes());
        entry[8..].copy_from_slice(&page.sum.to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&bytes);
    hasher.finalize()
}

fn decode_state(salt: u32, word: u64) -> std::result::Result<Option<u64>, TableFault> {
    if word == 0 {
        return Ok(None);
    }
    let state = unseal(salt, word).ok_or(TableFault::State)?;
    match state & 0xf {
        0 => Ok(None),
        VALID => Ok(Some(state >> 4)),
        _ => Err(TableFault::State),
    }
}

/// Returns the content of the table in `bytes`, which are as many as `layout` says and are not trusted; `None` if it is
/// free.
///
/// # Errors
/// A [`TableFault`].
pub(crate) fn decode_table(
    salt: u32,
    layout: &CacheLayout,
    bytes: &[u8],
) -> std::result::Result<Option<TableContent>, TableFault> {
    let word_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let number_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let Some(sequence) = decode_state(salt, word_at(0))? else { return Ok(None) };
    let places = decode_places(salt, word_at(8)).ok_or(TableFault::Places)?;
    let (crc, count, pages_max) = (number_at(16), number_at(20) as usize, layout.pages() as usize);
    if count > pages_max {
        return Err(TableFault::Pages);
    }
    let (words, sums) = bytes[HEAD as usize..].split_at(pages_max * 8);
    let (words, sums) = (&words.as_chunks().0[..count], &sums.as_chunks().0[..count]);
    let mut pages = Vec::with_capacity(count);
    for (word, sum) in words.iter().zip(sums) {
        let word = PageWord::decode(salt, u64::from_le_bytes(*word)).ok_or(TableFault::Word(pages.len() as u32))?;
        pages.push(TablePage { word, sum: u32::from_le_bytes(*sum) });
    }
    match pages_crc(salt, &pages) == crc {
        true => Ok(Some(TableContent { sequence, places, pages })),
        false => Err(TableFault::Pages),
    }
}

impl CacheMemory {
    /// Returns the state of table `number` in DRAM.
    pub fn table_state(&self, number: u32) -> &TableState {
        &self.group_of(number).states[(number % GROUP) as usize]
    }

    /// Returns the hits of the page `page`, which is no slot.
    pub fn page_hits(&self, page: PageRef) -> &AtomicU8 {
        let (table, index) = self.table_of(page);
        &self.group_of(table).hits[(table % GROUP * self.pages() + index) as usize]
    }

    /// Returns the table of the page `page`, which is no slot, and the number of the page in it.
    pub fn table_of(&self, page: PageRef) -> (u32, u32) {
        let pages = self.pages();
        (page.number() / pages, page.number() % pages)
    }

    /// Returns the reference to page `index` of table `table`.
    pub fn page_ref(&self, table: u32, index: u32) -> PageRef {
        PageRef::page(table * self.pages() + index)
    }

    fn word_at(&self, page: PageRef) -> u64 {
        let (table, index) = self.table_of(page);
        self.table(table) + HEAD + u64::from(index) * 8
    }

    /// Returns the word of the page `page`, or `None` if it is damaged.
    pub fn page_word(&self, page: PageRef) -> Option<PageWord> {
        PageWord::decode(self.salt, self.memory().load_word(self.word_at(page)))
    }

    /// Stores the word of the page `page` and starts its write-back: durable after this thread's next drain (LT2).
    pub fn set_page_word(&self, page: PageRef, word: PageWord) {
        let at = self.word_at(page);
        self.memory().store_word(at, word.encode(self.salt));
        self.memory().flush(Span::new(at, 8));
    }

    /// Returns the keys of all pages of table `number`, by one read and without verifying their words.
    pub fn unverified_keys(&self, number: u32) -> Vec<BlockKey> {
        let mut words = vec![0; self.pages() as usize * 8];
        self.memory().load(self.table(number) + HEAD, &mut words);
        words.as_chunks().0.iter().map(|word| BlockKey::of_word(u64::from_le_bytes(*word))).collect()
    }

    /// Returns the sum of the data of the page `page`.
    pub fn page_sum(&self, page: PageRef) -> u32 {
        let (table, index) = self.table_of(page);
        let at = self.table(table) + HEAD + u64::from(self.pages()) * 8 + u64::from(index) * 4;
        let mut sum = [0; 4];
        self.memory().load(at, &mut sum);
        u32::from_le_bytes(sum)
    }

    /// Returns the sequence of table `number` if it is valid, `None` if it is free.
    ///
    /// # Errors
    /// [`TableFault::State`].
    pub fn table_sequence(&self, number: u32) -> std::result::Result<Option<u64>, TableFault> {
        decode_state(self.salt, self.memory().load_word(self.table(number)))
    }

    /// Returns the places of table `number`, or `None` if they are damaged.
    pub fn table_places(&self, number: u32) -> Option<LebPlaces> {
        decode_places(self.salt, self.memory().load_word(self.table(number) + 8))
    }

    /// Stores the places of table `number`: durable after this thread's next drain (LT2).
    pub fn set_table_places(&self, number: u32, places: LebPlaces) {
        let at = self.table(number) + 8;
        self.memory().store_word(at, encode_places(self.salt, places));
        self.memory().flush(Span::new(at, 8));
    }

    /// Returns the content of table `number`; `None` if it is free.
    ///
    /// # Errors
    /// A [`TableFault`].
    pub fn load_table(&self, number: u32) -> std::result::Result<Option<TableContent>, TableFault> {
        if self.table_sequence(number)?.is_none() {
            return Ok(None);
        }
        let mut bytes = vec![0; self.layout().table_bytes() as usize];
        self.memory().load(self.table(number), &mut bytes);
        decode_table(self.salt, self.layout(), &bytes)
    }

    /// Returns the bytes of a table with `content` without its state.
    fn encode_table(&self, content: &TableContent) -> Vec<u8> {
        let pages_max = self.layout().pages() as usize;
        let mut bytes = vec![0; self.layout().table_bytes() as usize];
        bytes[8..16].copy_from_slice(&encode_places(self.salt, content.places).to_le_bytes());
        bytes[16..20].copy_from_slice(&pages_crc(self.salt, &content.pages).to_le_bytes());
        bytes[20..24].copy_from_slice(&(content.pages.len() as u32).to_le_bytes());
        for (index, page) in content.pages.iter().enumerate() {
            let at = HEAD as usize + index * 8;
            bytes[at..at + 8].copy_from_slice(&page.word.encode(self.salt).to_le_bytes());
            let at = HEAD as usize + pages_max * 8 + index * 4;
            bytes[at..at + 4].copy_from_slice(&page.sum.to_le_bytes());
        }
        bytes
    }

    /// Returns the header pages of a LEB with `content`: the table as it is at the seal, with its sequence.
    pub fn encode_leb_header(&self, content: &TableContent) -> Vec<u8> {
        let mut bytes = self.encode_table(content);
        bytes[..8].copy_from_slice(&seal(self.salt, content.sequence << 4 | VALID).to_le_bytes());
        let header = self.layout().header_pages() as usize * crate::BLOCK as usize;
        bytes.resize(header, 0);
        bytes
    }

    /// Stores `content` into the free table `number` and makes it valid. Durable on return (LT1).
    ///
    /// # Errors
    /// The errors of a drain.
    pub fn store_table(&self, number: u32, content: &TableContent) -> Result<()> {
        let at = self.table(number);
        let bytes = self.encode_table(content);
        self.memory().store(at + 8, &bytes[8..], Scheme::Nt);
        self.lease().drain()?;
        self.memory().store_word(at, seal(self.salt, content.sequence << 4 | VALID));
        self.lease().persist(Span::new(at, 8))
    }

    /// Makes table `number` free: durable after this thread's next drain (LT2).
    pub fn free_table(&self, number: u32) {
        let at = self.table(number);
        self.memory().store_word(at, seal(self.salt, 0));
        self.memory().flush(Span::new(at, 8));
    }
}
