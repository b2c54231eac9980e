//! Members that hang (LO1, LO2).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ferrite_disk::{Clock, FaultAction, FaultCondition, FaultDisk, FaultPlan, RamDisk};
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;
use parking_lot::Condvar;

use super::*;
use crate::tests::{CacheRig, RigShape, TestClock, block_of, members_of, open_pool};
use crate::{BLOCK, Cache, OpenOptions, SsdState};

const LIMIT: Duration = Duration::from_millis(50);
/// A time that nothing takes unless it waits for a member.
const LONG: Duration = Duration::from_secs(5);

/// An opener of these members, which hangs at one address while a test wants that.
struct HangingOpener {
    members: HashMap<String, Arc<dyn Disk>>,
    hangs_at: Mutex<Option<String>>,
    changed: Condvar,
    has_hung: AtomicBool,
}

impl HangingOpener {
    fn new(members: HashMap<String, Arc<dyn Disk>>) -> Arc<Self> {
        let (hangs_at, changed, has_hung) = Default::default();
        Arc::new(Self { members, hangs_at, changed, has_hung })
    }

    fn hang_at(&self, address: Option<&str>) {
        *self.hangs_at.lock() = address.map(String::from);
        self.changed.notify_all();
    }
}

impl MemberOpener for HangingOpener {
    fn open(&self, address: &str) -> std::result::Result<Arc<dyn Disk>, String> {
        let mut hangs_at = self.hangs_at.lock();
        while hangs_at.as_deref() == Some(address) {
            self.has_hung.store(true, Ordering::SeqCst);
            self.changed.wait(&mut hangs_at);
        }
        self.members.get(address).cloned().ok_or_else(|| format!("{address} is not there"))
    }
}

fn faulty(disk: impl Disk + 'static) -> Arc<FaultDisk<Box<dyn Disk>>> {
    Arc::new(FaultDisk::new(Box::new(disk) as Box<dyn Disk>, FaultPlan::default()))
}

fn hang() -> FaultPlan {
    FaultPlan::of(FaultAction::Hang, FaultCondition::default())
}

#[test]
fn lo1_opening_that_hangs_ends_in_time_and_is_found_later() {
    let members = HashMap::from([("a".to_string(), Arc::new(RamDisk::new(BLOCK)) as Arc<dyn Disk>)]);
    let inner = HangingOpener::new(members);
    let opener = LimitedOpener::new(inner.clone(), LIMIT);
    assert!(opener.open("a").is_ok());
    assert!(opener.open("b").err().unwrap().contains("not there"));
    inner.hang_at(Some("a"));
    for _ in 0..2 {
        let (start, why) = (Instant::now(), opener.open("a").err().unwrap());
        assert!(why.contains("cannot be opened within 50 ms") && start.elapsed() < LONG, "{why}");
    }
    inner.hang_at(None);
    assert!(opener.open("a").is_ok());
}

#[test]
fn lo2_disk_with_a_late_request_is_not_used_before_it_has_ended() {
    let disk = faulty(RamDisk::new(4 * BLOCK));
    let members = HashMap::from([("a".to_string(), disk.clone() as Arc<dyn Disk>)]);
    let opener = LimitedOpener::new(HangingOpener::new(members), LIMIT);
    let opened = opener.open("a").unwrap();
    opened.write(BLOCK, &block_of(1), Access::Cached).unwrap();
    disk.faults().set(hang());
    let mut bytes = vec![0; BLOCK as usize];
    let (start, why) = (Instant::now(), opened.read(BLOCK, &mut bytes).unwrap_err().to_string());
    assert!(why.contains("did not answer within 50 ms") && start.elapsed() < LONG, "{why}");
    assert!(opened.write(0, &block_of(2), Access::Cached).unwrap_err().to_string().contains("given up"));
    assert!(opener.open("a").err().unwrap().contains("given up"));
    disk.faults().set(FaultPlan::default());
    opened.read(BLOCK, &mut bytes).unwrap();
    assert!(bytes == block_of(1));
    assert!(opener.open("a").is_ok());
}

fn opened(world: &ferrite_crash::World, opener: Arc<dyn MemberOpener>) -> CacheRig {
    let pool = open_pool(world).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(TestClock(Instant::now() - Duration::from_secs(60)));
    let options = OpenOptions { opener, clock, scheme: Scheme::Nt, random: || 3 };
    let cache = Cache::open(&pool, "c", options).unwrap();
    let disk = cache.disk("c").unwrap();
    CacheRig { cache, disk, pool, clock: Arc::default(), members: Arc::new(crate::tests::RigOpener(Mutex::default())) }
}

fn state(rig: &CacheRig) -> SsdState {
    rig.cache.core.ssds.get(1).unwrap().state().0
}

/// Steps until SSD 1 is in `wanted`.
fn step_until(rig: &CacheRig, wanted: SsdState) {
    let start = Instant::now();
    while state(rig) != wanted {
        assert!(start.elapsed() < LONG, "it is {:?}", state(rig));
        rig.cache.looked_ns.store(0, Ordering::SeqCst);
        rig.cache.step().unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn lo1_ssd_whose_stamp_hangs_is_missing_until_it_answers() {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    let mut members = members_of(&world, &shape);
    let ssd = faulty(Arc::clone(&members["ssd1"]));
    members.insert("ssd1".into(), ssd.clone());
    ssd.faults().set(hang());
    let start = Instant::now();
    let rig = opened(&world, Arc::new(LimitedOpener::new(HangingOpener::new(members), LIMIT)));
    assert!(start.elapsed() < LONG);
    assert_eq!(state(&rig), SsdState::Missing);
    (0..6).for_each(|block| rig.write(block, 10 + block));
    rig.settle();
    assert!((0..6).all(|block| rig.read(block).unwrap() == block_of(10 + block)));
    assert_eq!(rig.cache.stats(None).ssds[1].state, SsdState::Missing);
    ssd.faults().set(FaultPlan::default());
    step_until(&rig, SsdState::Online);
}

/// Returns true if a step returns while a missing SSD hangs as it is opened.
fn steps_while_an_opening_hangs(bug: Option<&'static str>) -> bool {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    let inner = HangingOpener::new(members_of(&world, &shape));
    let rig = opened(&world, Arc::new(LimitedOpener::new(inner.clone(), 100 * LONG)));
    rig.cache.core.ssds.get(1).unwrap().set_state(SsdState::Missing, "unplugged".into(), 0);
    inner.hang_at(Some("ssd1"));
    let (to, from) = channel();
    std::thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(move || {
            let _bug = bug.map(plant);
            rig.cache.looked_ns.store(0, Ordering::SeqCst);
            rig.cache.step().unwrap();
            let _ = to.send(());
        });
        let goes_on = from.recv_timeout(Duration::from_millis(500)).is_ok();
        if goes_on {
            (0..6).for_each(|block| rig.write(block, 10 + block));
            rig.settle();
            assert!((0..6).all(|block| rig.read(block).unwrap() == block_of(10 + block)));
            assert_eq!(rig.cache.stats(None).ssds[1].state, SsdState::Missing);
        }
        while !inner.has_hung.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        inner.hang_at(None);
        goes_on
    })
}

#[test]
fn worker_and_clients_go_on_while_a_member_hangs() {
    assert!(steps_while_an_opening_hangs(None));
}

#[test]
fn canary_worker_that_waits_for_members_is_caught() {
    assert!(!steps_while_an_opening_hangs(Some("cache: the worker waits for members")));
}

#[test]
fn canary_opening_without_a_limit_is_caught() {
    let inner = HangingOpener::new(HashMap::new());
    inner.hang_at(Some("a"));
    let opener = Arc::new(LimitedOpener::new(inner.clone(), LIMIT));
    let (to, from) = channel();
    let thread = std::thread::spawn(move || {
        let _bug = plant("cache: a member is opened without a limit");
        let _ = opener.open("a");
        let _ = to.send(());
    });
    assert!(from.recv_timeout(10 * LIMIT).is_err(), "the bug is there");
    inner.hang_at(None);
    thread.join().unwrap();
}
