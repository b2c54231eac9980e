//! Checkpoints: the whole content of a structure, in one of two slots, named by one word.
//!
//! ```text
//! MAP page   | line 0: head of the log | line 1: checkpoint word | zeros |
//! role 2     slot of even checkpoints, role 3 of odd ones:
//!            | header record | frame record | frame record ... |
//! header     0 sequence u64   8 log position u64   16 items u64   24 lines u64
//! frame      items, each: 0 len u32   4 bytes
//! ```
//!
//! Records have the pool's format (`pool::record`). Each has the number of its first line + 1 as its sequence, and a
//! salt that no other checkpoint of any object has. The word is a checked word: the sequence of the current checkpoint.
//!
//! - CK1. A checkpoint is stored in the slot that the word does not name, and is durable before the word names it.
//! - CK2. The log before a checkpoint's position is cut only after the word that names it is durable.
//! - CK3. So at every instant the named checkpoint and the log from its position on are the whole structure. A crash
//!   during a checkpoint loses nothing, and recovery replays no more than the previous checkpoint left.
//! - CK4. All of the named checkpoint must verify: a part that does not was damaged, not torn, and the error names it.
//!   Each frame verifies by itself, so the rest of a damaged checkpoint can be read.
//! - CK5. Both slots have room for the content after a change before that change is logged, or the change is refused.
//!   So a checkpoint needs no new space, the log never stays full, and a change that adds no content is never refused
//!   for lack of space.

use ferrite_memory::{Memory, Scheme, Span, planted};
use ferrite_pool::checked_record::{self, CheckedRecord};
use ferrite_pool::holding::{RoleSpace, TagLease};
use ferrite_pool::{LogPosition, Role, SEQUENCE_BOUND, Stream, Tag};

use crate::object_word::{self, Flaw};
use crate::{Result, salt};

/// Bytes of a frame, after which it is closed.
const FRAME_BYTES: usize = 4 << 10;
const LINE: u64 = checked_record::ALIGN as u64;
const HEADER_BYTES: usize = 32;

/// The header of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The sequence; 0 for an object without a checkpoint.
    pub sequence: u64,
    /// The position at which the log continues.
    pub position: LogPosition,
    /// The number of items.
    pub items: u64,
    /// The number of lines, with the header.
    pub lines: u64,
}

impl Checkpoint {
    /// Returns the state of an object without a checkpoint.
    fn none() -> Self {
        Self { sequence: 0, position: LogPosition::from_number(0), items: 0, lines: 0 }
    }

    /// Returns true if the next checkpoint can be counted from this one.
    fn is_bounded(&self) -> bool {
        self.sequence < SEQUENCE_BOUND && self.position.number() < SEQUENCE_BOUND
    }

    /// Returns the bytes that the checkpoint takes.
    pub fn bytes(&self) -> usize {
        (self.lines * LINE) as usize
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let words = [self.sequence, self.position.number(), self.items, self.lines];
        let mut bytes = [0; HEADER_BYTES];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = payload.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("eight bytes"));
        Some(Self { sequence: word(0), position: LogPosition::from_number(word(1)), items: word(2), lines: word(3) })
    }
}

/// The slots of even and of odd checkpoints.
pub(crate) const SLOTS: [Role; 2] = [Role(2), Role(3)];

fn role(sequence: u64) -> Role {
    SLOTS[(sequence % 2) as usize]
}

/// A reader of the checkpoints of the object in `tag`.
pub(crate) struct CheckpointReader<'a> {
    memory: &'a dyn Memory,
    tag: &'a Tag,
    salt: u32,
}

impl<'a> CheckpointReader<'a> {
    pub fn new(memory: &'a dyn Memory, uuid: &[u8; 16], tag: &'a Tag) -> Self {
        Self { memory, tag, salt: salt(uuid, tag.generation) }
    }

    /// Returns the named checkpoint, at which a log that begins at `head` continues. The error names the damaged part
    /// (CK4).
    pub fn named(&self, head: LogPosition) -> Result<Checkpoint, Flaw> {
        let named = match object_word::read(self.memory, self.tag, self.salt)? {
            None => Checkpoint::none(),
            Some(sequence) => {
                let slot = CheckpointSlot::new(self, sequence);
                slot.header(sequence).ok_or_else(|| ("the header of its checkpoint".into(), slot.place(0)))?
            }
        };
        if named.position < head || !named.is_bounded() {
            return Err(("where its log goes on".into(), object_word::place(self.tag)?));
        }
        Ok(named)
    }

    /// Returns the best checkpoint of an object whose named checkpoint is unusable; its log begins at `head`. That is
    /// the newest one at which the log continues, or else the frames behind the header of the named checkpoint.
    pub fn salvageable(&self, head: LogPosition) -> Checkpoint {
        let found = SLOTS.into_iter().filter_map(|role| self.header_in(role));
        let whole = found.filter(|it| it.position >= head && it.is_bounded()).max_by_key(|it| it.sequence);
        whole.unwrap_or_else(|| match object_word::read(self.memory, self.tag, self.salt) {
            Ok(Some(sequence)) => self.headless(sequence, head),
            _ => Checkpoint { position: head, ..Checkpoint::none() },
        })
    }

    /// Returns the header in the slot of `role`, of any checkpoint.
    fn header_in(&self, role: Role) -> Option<Checkpoint> {
        let mut sequence = [0; 8];
        let at = Stream::new(&self.tag.extents, role).locate(0)?.at;
        self.memory.load(at + checked_record::HEADER as u64, &mut sequence);
        let sequence = u64::from_le_bytes(sequence);
        let slot = Some(CheckpointSlot::new(self, sequence)).filter(|_| self::role(sequence) == role)?;
        slot.header(sequence)
    }

    /// Returns checkpoint `sequence` as its frames show it, without its header.
    fn headless(&self, sequence: u64, head: LogPosition) -> Checkpoint {
        let slot = CheckpointSlot::new(self, sequence);
        let first = lines_for(HEADER_BYTES);
        let (mut line, mut items, mut lines) = (first, 0, first);
        while line < slot.lines() {
            let Some(record) = slot.record(line) else {
                line += 1;
                continue;
            };
            items += each(&record.payload, &mut |_| ());
            line += lines_for(record.payload.len());
            lines = line;
        }
        Checkpoint { sequence, position: head, items, lines }
    }

    /// Passes every item of `checkpoint` that verifies to `visit`. Returns the flaws.
    pub fn each_item(&self, checkpoint: &Checkpoint, visit: &mut dyn FnMut(&[u8])) -> Vec<Flaw> {
        let slot = CheckpointSlot::new(self, checkpoint.sequence);
        let (mut line, mut flaws, mut items) = (lines_for(HEADER_BYTES), Vec::new(), 0);
        while line < checkpoint.lines {
            match slot.record(line) {
                Some(record) => {
                    items += each(&record.payload, visit);
                    line += lines_for(record.payload.len());
                }
                None => {
                    flaws.push((format!("line {line} of its checkpoint"), slot.place(line)));
                    line += 1;
                    // The next frame begins where a record verifies.
                    while line < checkpoint.lines && slot.record(line).is_none() {
                        line += 1;
                    }
                }
            }
        }
        if flaws.is_empty() && items != checkpoint.items {
            flaws.push(("the number of items of its checkpoint".into(), slot.place(0)));
        }
        flaws
    }
}

/// Passes the items of a frame to `visit`. Returns their number.
fn each(mut frame: &[u8], visit: &mut dyn FnMut(&[u8])) -> u64 {
    let mut items = 0;
    while let Some((len, rest)) = frame.split_first_chunk::<4>() {
        let Some((item, rest)) = rest.split_at_checked(u32::from_le_bytes(*len) as usize) else { break };
        visit(item);
        (items, frame) = (items + 1, rest);
    }
    items
}

fn lines_for(payload_bytes: usize) -> u64 {
    checked_record::footprint(payload_bytes) as u64 / LINE
}

/// The slot of one checkpoint.
struct CheckpointSlot<'a> {
    memory: &'a dyn Memory,
    stream: Stream,
    salt: u32,
}

impl<'a> CheckpointSlot<'a> {
    fn new(reader: &CheckpointReader<'a>, sequence: u64) -> Self {
        let stream = Stream::new(&reader.tag.extents, role(sequence));
        let mut hasher = crc32fast::Hasher::new_with_initial(reader.salt);
        hasher.update(&sequence.to_le_bytes());
        Self { memory: reader.memory, stream, salt: hasher.finalize() }
    }

    fn lines(&self) -> u64 {
        self.stream.len() / LINE
    }

    fn place(&self, line: u64) -> u64 {
        self.stream.locate(line * LINE).map_or(0, |run| run.at)
    }

    fn load(&self, line: u64, len: u64) -> Vec<u8> {
        let (mut bytes, mut done) = (vec![0; len as usize], 0);
        for run in self.stream.runs(Span::new(line * LINE, len)) {
            self.memory.load(run.at, &mut bytes[done..done + run.len as usize]);
            done += run.len as usize;
        }
        bytes
    }

    /// Returns the header of checkpoint `sequence`, if it verifies.
    fn header(&self, sequence: u64) -> Option<Checkpoint> {
        let header = self.record(0).and_then(|record| Checkpoint::decode(&record.payload));
        header.filter(|it| it.sequence == sequence && it.lines <= self.lines())
    }

    /// Returns the record that begins at `line`, if one verifies there.
    fn record(&self, line: u64) -> Option<CheckedRecord> {
        let left = self.lines().checked_sub(line).filter(|left| *left > 0)?;
        let (_, payload_bytes, sequence) = checked_record::header(&self.load(line, LINE))?;
        if sequence != line + 1 || lines_for(payload_bytes) > left {
            return None;
        }
        CheckedRecord::parse(self.salt, &self.load(line, lines_for(payload_bytes) * LINE))
    }

    /// Stores the record with `draft` as header and payload at `line`. Returns the line behind it.
    fn store(&self, line: u64, draft: &mut Vec<u8>) -> u64 {
        checked_record::seal(draft, self.salt, line + 1);
        let mut done = 0;
        for run in self.stream.runs(Span::new(line * LINE, draft.len() as u64)) {
            self.memory.store(run.at, &draft[done..done + run.len as usize], Scheme::Nt);
            done += run.len as usize;
        }
        line + draft.len() as u64 / LINE
    }
}

/// A function that passes all items of a structure, each in parts.
pub(crate) type Items<'a> = &'a dyn Fn(&mut dyn FnMut(&[&[u8]]));

/// Packs items into frames.
struct Framer<'a> {
    draft: Vec<u8>,
    items: u64,
    line: u64,
    store: &'a mut dyn FnMut(u64, &mut Vec<u8>) -> u64,
}

impl Framer<'_> {
    fn push(&mut self, item: &[&[u8]]) {
        let bytes: usize = item.iter().map(|part| part.len()).sum();
        self.draft.extend_from_slice(&(bytes as u32).to_le_bytes());
        item.iter().for_each(|part| self.draft.extend_from_slice(part));
        self.items += 1;
        if self.draft.len() >= FRAME_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.draft.len() > checked_record::HEADER {
            self.line = (self.store)(self.line, &mut self.draft);
            self.draft.clear();
            self.draft.resize(checked_record::HEADER, 0);
        }
    }
}

/// Passes the frames of `items` to `store`, with their line; `store` returns the next line. Returns the number of
/// items, and the line behind them.
fn frame(items: Items<'_>, store: &mut dyn FnMut(u64, &mut Vec<u8>) -> u64) -> (u64, u64) {
    let mut framer = Framer { draft: vec![0; checked_record::HEADER], items: 0, line: lines_for(HEADER_BYTES), store };
    items(&mut |item| framer.push(item));
    framer.flush();
    (framer.items, framer.line)
}

/// Returns the bytes of `items`, including their lengths.
pub(crate) fn content_bytes(items: Items<'_>) -> u64 {
    let mut bytes = 0;
    items(&mut |item| bytes += 4 + item.iter().map(|part| part.len() as u64).sum::<u64>());
    bytes
}

/// Returns the most bytes that a checkpoint of `content_bytes` needs. Frames are closed when they are full, and each
/// may end in less than a line of zeros.
pub(crate) fn slot_bytes(content_bytes: u64) -> u64 {
    let frames = content_bytes / (FRAME_BYTES - checked_record::HEADER) as u64 + 1;
    lines_for(HEADER_BYTES) * LINE + content_bytes + frames * (checked_record::HEADER as u64 + LINE - 1)
}

/// Returns how many slots are widened.
fn slots_to_widen() -> usize {
    if planted!("object: checkpoint widens one slot") { 1 } else { SLOTS.len() }
}

/// Widens both slots to `bytes` (CK5), and to half as much again if there is space, so that this is seldom needed.
/// Returns their size.
pub(crate) fn make_room(holding: &TagLease, bytes: u64) -> Result<u64> {
    let slots = || SLOTS.into_iter().take(slots_to_widen());
    let room = || slots().map(|role| holding.stream(role).len()).min().unwrap_or(0);
    if room() < bytes {
        let widen = |bytes| holding.widen(&slots().map(|role| RoleSpace { role, bytes }).collect::<Vec<_>>());
        match widen(bytes + bytes / 2) {
            Err(error) if error.is_want_of_space() => widen(bytes)?,
            widened => widened?,
        }
    }
    Ok(room())
}

/// Returns the lines of a checkpoint of `items`.
pub(crate) fn lines_of(items: Items<'_>) -> u64 {
    frame(items, &mut |line, draft| line + lines_for(draft.len() - checked_record::HEADER)).1
}

/// Stores checkpoint `sequence`, of `items`, at which the log continues at `position`. Durable and named on return
/// (CK1); after an error the previous one is.
pub(crate) fn store(holding: &TagLease, sequence: u64, position: LogPosition, items: Items<'_>) -> Result<Checkpoint> {
    let lines = lines_of(items);
    if holding.stream(role(sequence)).len() < lines * LINE {
        // The type announced less content than it has.
        holding.widen(&[RoleSpace { role: role(sequence), bytes: lines * LINE }])?;
    }
    let (tag, uuid) = (holding.tag(), holding.uuid());
    let reader = CheckpointReader::new(holding.memory(), &uuid, &tag);
    let slot = CheckpointSlot::new(&reader, sequence);
    let (items, lines) = frame(items, &mut |line, draft| slot.store(line, draft));
    let checkpoint = Checkpoint { sequence, position, items, lines };
    let mut header = vec![0; checked_record::HEADER];
    header.extend(checkpoint.encode());
    slot.store(0, &mut header);
    holding.drain()?;
    object_word::store(holding, sequence)?;
    Ok(checkpoint)
}
