//! One durable update, beside the bare instructions and beside other libraries.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::{Guard, Mapped, Memory, Scheme};
use ferrite_object::{DirectBytes, Logging, Map, NewStore, ObjectLog, OpenStore, Store};

use super::UpdatePlan;
use super::peers::{self, PeerProcess};
use crate::bench_random::BenchRandom;
use crate::rounds::{BenchSubject, mean_ns};
use crate::scratch::Scratch;
use crate::session::{BenchSession, Race};
use crate::{Error, Result};

/// The cases.
pub const LINE: &str = "an update of one line";
pub const APPEND: &str = "an append of 64 bytes";
pub const UPDATE: &str = "an update of 64 bytes, of 10,000";
/// Subjects that others stand beside.
pub const BARE_FLUSH: &str = "bare store, flush, fence";
pub const BARE_NT: &str = "bare nt store, fence";
pub const MAP: &str = "map";
pub const APPENDED: &str = "log";
pub const DIRECT: &str = "direct update";

const ITEMS: u64 = 10_000;
const BYTES: usize = 64;
/// Bytes of a value that fills one line with its number and its checksum.
const LINE_BYTES: usize = 48;
/// Updates between two looks at the clock.
const BATCH: u64 = 32;
/// Bytes of the log, and of the ring that bare stores go around in.
const LOG_BYTES: u64 = 16 << 20;

/// A store, and the objects in it that are updated.
struct UpdatedStore {
    by_nt: Arc<DirectBytes>,
    by_flush: Arc<DirectBytes>,
    whole: Vec<Arc<DirectBytes>>,
    map: Map,
    log: Arc<ObjectLog>,
    bare: Mapped,
}

impl UpdatedStore {
    fn new(scratch: &Scratch) -> Result<Self> {
        let guard = OpenStore { guard: Some(Guard::None), services: None };
        let store = Store::initialize(&scratch.path("store"), &NewStore { bytes: 256 << 20, uuid: [3; 16] }, &guard);
        let store = store.map_err(refused)?;
        let value = |name: &str, bytes: usize, scheme| store.direct_bytes(name, &vec![0; bytes], scheme);
        let logging = Logging { log_bytes: LOG_BYTES, checkpoint_bytes: LOG_BYTES / 4 * 3, ..Logging::default() };
        let map = store.map("map", logging).map_err(refused)?;
        let log = store.log("log", logging).map_err(refused)?;
        // Once around both logs: the first touch of a page costs more than a hundred appends to it.
        (0..LOG_BYTES / 128).try_for_each(|_| append(&log, &[0; BYTES]))?;
        (0..LOG_BYTES / 128 * 2)
            .try_for_each(|number| map.put(&(number % ITEMS).to_le_bytes(), &[1; BYTES]))
            .map_err(refused)?;
        let whole = (0..16).map(|number| value(&format!("whole{number}"), BYTES, Scheme::Nt));
        let bare = scratch.mapped("bare", LOG_BYTES, Guard::None)?;
        Ok(Self {
            by_nt: value("nt", LINE_BYTES, Scheme::Nt).map_err(refused)?,
            by_flush: value("flush", LINE_BYTES, Scheme::Flush).map_err(refused)?,
            whole: whole.collect::<std::result::Result<_, _>>().map_err(refused)?,
            map,
            log,
            bare,
        })
    }
}

pub fn refused(error: ferrite_object::Error) -> Error {
    Error::server("objects", error.to_string())
}

/// Nanoseconds of an update, the mean over `ms` milliseconds.
fn update_ns(ms: u64, update: impl FnMut() -> Result<()>) -> Result<f64> {
    mean_ns(Duration::from_millis(ms), BATCH, update)
}

/// Measures every case.
pub fn measure(session: &mut BenchSession<'_>, scratch: &Scratch, plan: &UpdatePlan) -> Result<()> {
    if ![LINE, APPEND, UPDATE].into_iter().any(|case| session.options.wants(case)) {
        return Ok(());
    }
    session.announce("filling a map")?;
    let field = UpdatedStore::new(scratch)?;
    let ms = plan.slice_ms;
    let race = |case, beside| Race { case, unit: "ns", rounds: plan.rounds, slice_ms: ms, beside };
    if session.options.wants(LINE) {
        session.race(&race(LINE, BARE_FLUSH), lines(&field, ms))?;
    }
    if session.options.wants(APPEND) {
        session.race(&race(APPEND, BARE_NT), appends(&field, ms))?;
    }
    if session.options.wants(UPDATE) {
        let peers = RefCell::new(peers::start(session, scratch)?);
        session.race(&race(UPDATE, MAP), updates(&field, &peers, ms))?;
    }
    Ok(())
}

/// Stores to `lines` lines in turn by `scheme`; an object has two slots.
fn bare<'a>(field: &'a UpdatedStore, name: &'static str, scheme: Scheme, lines: u64, ms: u64) -> BenchSubject<'a> {
    BenchSubject::new(name, move |_| {
        let mut line = 0;
        update_ns(ms, || {
            line = (line + 1) % lines;
            field.bare.store(line * 64, &[line as u8; 64], scheme);
            field.bare.fence();
            Ok(())
        })
    })
}

fn direct<'a>(value: &'a DirectBytes, name: &'static str, ms: u64) -> BenchSubject<'a> {
    BenchSubject::new(name, move |_| {
        let mut content = vec![0_u8; value.value_bytes()];
        update_ns(ms, || {
            content[0] = content[0].wrapping_add(1);
            value.set(&content).map_err(refused)
        })
    })
}

fn lines(field: &UpdatedStore, ms: u64) -> Vec<BenchSubject<'_>> {
    vec![
        bare(field, BARE_FLUSH, Scheme::Flush, 2, ms),
        bare(field, BARE_NT, Scheme::Nt, 2, ms),
        direct(&field.by_flush, "direct update, flush", ms),
        direct(&field.by_nt, DIRECT, ms),
    ]
}

pub(super) fn append(log: &ObjectLog, entry: &[u8]) -> Result<()> {
    match log.append(entry) {
        Err(ferrite_object::Error::Pool(ferrite_pool::Error::LogFull { .. })) => {
            log.cut(log.end()).and_then(|()| log.append(entry)).map(drop).map_err(refused)
        }
        other => other.map(drop).map_err(refused),
    }
}

fn appends(field: &UpdatedStore, ms: u64) -> Vec<BenchSubject<'_>> {
    let logged = move |_| update_ns(ms, || append(&field.log, &[7; BYTES]));
    vec![bare(field, BARE_NT, Scheme::Nt, LOG_BYTES / 64, ms), BenchSubject::new(APPENDED, logged)]
}

fn updates<'a>(field: &'a UpdatedStore, peers: &'a RefCell<Vec<PeerProcess>>, ms: u64) -> Vec<BenchSubject<'a>> {
    let by_map = move |seed| {
        let mut random = BenchRandom::new(seed);
        update_ns(ms, || {
            let item = random.below(ITEMS);
            field.map.put(&item.to_le_bytes(), &[item as u8; BYTES]).map_err(refused)
        })
    };
    let by_value = move |seed| {
        let mut random = BenchRandom::new(seed);
        update_ns(ms, || {
            let value = &field.whole[random.below(field.whole.len() as u64) as usize];
            value.set(&[random.next() as u8; BYTES]).map_err(refused)
        })
    };
    let by_log = move |_| update_ns(ms, || append(&field.log, &[7; BYTES]));
    let mut all =
        vec![BenchSubject::new(MAP, by_map), BenchSubject::new(DIRECT, by_value), BenchSubject::new(APPENDED, by_log)];
    for (at, name) in peers.borrow().iter().map(|peer| peer.name).enumerate() {
        all.push(BenchSubject::new(name, move |_| peers.borrow_mut()[at].update_ns(ms)));
    }
    all
}
