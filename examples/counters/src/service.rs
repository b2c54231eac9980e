//! The service: what a program registers by one line, and what runs in an open pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_memory::{Scheme, Span};
use ferrite_owner::services::{parse, reply};
use ferrite_owner::{
    CommandSpec, Metric, Removal, RunningService, Service, ServiceCall, ServicePool, ServiceReply, TypedRequest,
    machine,
};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{
    ChangeGate, Error as PoolError, Failure, Freeze, NewTag, Pool, PoolMember, Role, SpaceNeed, Stream, Tag, TagKind,
    Zone,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::disk::CounterDisk;
use crate::member::MemberFile;
use crate::page::CounterPage;
use crate::requests::{COMMANDS, COUNTERS, CounterReport, CounterRequest};

/// The kind of tags of counters.
pub const COUNTER_KIND: TagKind = TagKind(0x7f01);
/// Time between two steps.
const PAUSE: Duration = Duration::from_millis(20);

/// The service of counters, as a program registers it.
pub struct CounterService;

/// The counters of an open pool.
pub struct OpenCounters {
    pool: Arc<Pool>,
    /// Closed while the pool stands still.
    gate: ChangeGate,
    /// Held to add.
    adding: Mutex<()>,
    member: Mutex<Option<MemberFile>>,
}

impl TagOwner for CounterService {
    fn kind(&self) -> TagKind {
        COUNTER_KIND
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        let Some(page) = CounterPage::of(pool.memory(), tag) else {
            return findings.error("it has no page: restore a backup", None);
        };
        for (slot, name, count) in page.slots() {
            let parts = [("name", name.is_none()), ("count", count.is_none())];
            for (what, _) in parts.into_iter().filter(|(_, is_damaged)| *is_damaged) {
                findings.error(format!("the {what} in slot {slot} is damaged: restore a backup"), None);
            }
        }
    }
}

impl Service for CounterService {
    fn name(&self) -> &'static str {
        COUNTERS
    }

    fn removal(&self) -> Removal {
        Removal::ByTagRemove
    }

    fn commands(&self) -> &'static [CommandSpec] {
        COMMANDS
    }

    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure> {
        let counters = Arc::new(OpenCounters {
            pool: Arc::clone(pool.pool),
            gate: ChangeGate::default(),
            adding: Mutex::default(),
            member: Mutex::default(),
        });
        let standing: Arc<dyn Freeze> = counters.clone();
        pool.pool.register_freezer(Arc::downgrade(&standing));
        Ok(counters)
    }
}

impl Freeze for OpenCounters {
    fn freeze(&self) {
        self.gate.close();
        // An addition that passed the gate before ends first.
        drop(self.adding.lock());
    }

    fn thaw(&self) {
        self.gate.open();
    }
}

impl RunningService for OpenCounters {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        let request: CounterRequest = parse(COUNTERS, call.request)?;
        call.view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
        match request {
            CounterRequest::List => reply(&self.list()),
            CounterRequest::Add { tag, counter, by } => {
                let count = self.add(&tag, &counter, by)?;
                reply(&[CounterReport { tag, counter, count }])
            }
            CounterRequest::Export { to } => {
                let uuid = machine::random_uuid().map_err(Failure::failed)?;
                *self.member.lock() = Some(MemberFile::begin(&self.pool, to, uuid)?);
                reply(&Value::Null)
            }
        }
    }

    /// Writes the sum to the member.
    fn step(&self) -> Option<Duration> {
        if let Some(member) = &mut *self.member.lock() {
            // A file that cannot be written is tried again by the next step.
            let _ = member.write(&self.pool, self.sum());
        }
        Some(PAUSE)
    }

    fn stat(&self, tag: &Tag) -> Option<Value> {
        let page = CounterPage::of(self.pool.memory(), tag)?;
        Some(json!(page.counters().into_iter().collect::<BTreeMap<_, _>>()))
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::gauge("counters_sum", "The sum of all counters").of(self.sum())]
    }

    fn members(&self) -> Vec<PoolMember> {
        let known = self.member.lock().as_ref().map(MemberFile::uuid);
        let all = self.pool.members().unwrap_or_default();
        all.into_iter().filter(|member| Some(member.uuid) == known).collect()
    }

    fn disk_names(&self) -> Vec<String> {
        self.tags().iter().map(|tag| tag.name.clone()).collect()
    }

    fn open_disk(&self, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        let disk = || {
            let tag = self.pool.tag(name)?;
            let disk = CounterDisk::of(&self.pool, &tag);
            let disk = disk.ok_or_else(|| Failure::not_found(format!("{name:?} has no page")))?;
            Ok(Arc::new(disk) as Arc<dyn Disk>)
        };
        Some(disk())
    }
}

impl OpenCounters {
    fn tags(&self) -> Vec<Arc<Tag>> {
        self.pool.tags().into_iter().filter(|tag| tag.kind == COUNTER_KIND).collect()
    }

    fn list(&self) -> Vec<CounterReport> {
        let of = |tag: Arc<Tag>| {
            let counters = CounterPage::of(self.pool.memory(), &tag).map(|page| page.counters()).unwrap_or_default();
            let report = move |(counter, count)| CounterReport { tag: tag.name.clone(), counter, count };
            counters.into_iter().map(report).collect::<Vec<_>>()
        };
        self.tags().into_iter().flat_map(of).collect()
    }

    fn sum(&self) -> u64 {
        self.list().iter().map(|counter| counter.count).sum()
    }

    fn add(&self, name: &str, counter: &str, by: u64) -> Result<u64, Failure> {
        // Outside of the lock: making a tag asks other services for space, which waits while they stop.
        let tag = match self.pool.tag(name) {
            Err(PoolError::NotFound(_)) => self.make(name)?,
            found => found?,
        };
        tag.ensure_kind(COUNTER_KIND)?;
        let _one = self.gate.pass(|| self.adding.lock());
        self.pool.check_poison()?;
        let page = CounterPage::of(self.pool.memory(), &tag);
        page.ok_or_else(|| Failure::not_found(format!("{name:?} has no page")))?.add(counter, by)
    }

    /// Makes a tag of no counters.
    fn make(&self, name: &str) -> Result<Arc<Tag>, Failure> {
        let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE }];
        let new = NewTag { name, kind: COUNTER_KIND, size: PAGE, attributes: [0; 64], needs: &needs };
        let memory = self.pool.memory();
        let made = self.pool.with_spare(|| {
            self.pool.create_tag(&new, |extents| {
                let page = Stream::new(extents, Role::DATA).locate(0).expect("a page was asked for");
                memory.zero(Span::new(page.at, PAGE), Scheme::Nt);
                Ok(memory.barrier()?)
            })
        });
        match made {
            // Another client made it at the same time.
            Err(PoolError::Exists(_)) => Ok(self.pool.tag(name)?),
            made => Ok(made?),
        }
    }
}
