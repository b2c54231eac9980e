mod openings;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use parking_lot::Mutex;

use super::*;
use crate::holding::TagLease;
use crate::layout::POOL_BYTES_MIN;
use crate::{Format, NewTag, Role, SpaceNeed, TagKind, Zone};

fn pool() -> Pool {
    let memory: Arc<dyn Memory> = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).unwrap();
    Pool::open(memory, [2; 16]).unwrap().0
}

fn make(pool: &Pool, name: &str) {
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: 4096 }];
    let new = NewTag { name, kind: TagKind::BYTES, size: 0, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(())).unwrap();
}

/// A service that needs a transaction to stop, and counts its calls.
struct Service {
    pool: Weak<Pool>,
    name: String,
    stopped: AtomicBool,
    thawed: AtomicU64,
}

impl Freeze for Service {
    fn freeze(&self) {
        make(&self.pool.upgrade().unwrap(), &self.name);
        assert!(!self.stopped.swap(true, Ordering::SeqCst));
    }

    fn thaw(&self) {
        assert!(self.stopped.swap(false, Ordering::SeqCst));
        self.thawed.fetch_add(1, Ordering::SeqCst);
    }

    fn spare(&self) -> bool {
        assert!(!self.stopped.load(Ordering::SeqCst), "it was asked while it stood still");
        true
    }
}

fn service(pool: &Arc<Pool>, name: &str) -> Arc<Service> {
    let (stopped, thawed) = (AtomicBool::new(false), AtomicU64::new(0));
    Arc::new(Service { pool: Arc::downgrade(pool), name: name.into(), stopped, thawed })
}

fn handle(service: &Arc<Service>) -> Weak<dyn Freeze> {
    Arc::<Service>::downgrade(service)
}

/// F1, F2: services are stopped, each with the transaction it needed, and thawed when the guard goes.
#[test]
fn f1_services_stop_and_go_on() {
    let pool = Arc::new(pool());
    let services = ["one", "two"].map(|name| service(&pool, name));
    services.iter().for_each(|service| pool.register_freezer(handle(service)));
    let frozen = pool.freeze();
    assert!(services.iter().all(|service| service.stopped.load(Ordering::SeqCst)));
    assert_eq!(frozen.pool().tags().len(), 2, "what a service did to come to rest is there");
    drop(frozen);
    assert!(services.iter().all(|service| service.thawed.load(Ordering::SeqCst) == 1));
}

/// F1: a transaction waits for the thaw. The tag table can be read during that wait, although a change of it has begun.
#[test]
fn f1_a_transaction_waits_and_the_table_does_not() {
    let pool = pool();
    let done = AtomicBool::new(false);
    let (started, starts) = mpsc::channel();
    std::thread::scope(|scope| {
        let frozen = pool.freeze();
        scope.spawn(|| {
            started.send(()).unwrap();
            make(&pool, "late");
            done.store(true, Ordering::SeqCst);
        });
        starts.recv().unwrap();
        for _ in 0..1000 {
            assert!(pool.tags().is_empty(), "the tag was made while the pool stood still");
            std::thread::yield_now();
        }
        assert!(!done.load(Ordering::SeqCst));
        drop(frozen);
    });
    assert_eq!(pool.tags().len(), 1);
}

/// F2: what is inside a transaction ends before the pool stands still, and is not kept waiting for that.
#[test]
fn f2_a_transaction_inside_another_does_not_wait_for_who_waits_for_it() {
    let pool = Arc::new(pool());
    let (done, is_done) = mpsc::channel();
    // Not waited for: it may never end.
    std::thread::spawn(move || {
        let outer = pool.freezers().pass();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(pool.freeze()));
            while pool.freezers().gate.try_read().is_some() {
                std::thread::yield_now();
            }
            make(&pool, "inner");
            drop(outer);
        });
        done.send(()).unwrap();
    });
    is_done
        .recv_timeout(Duration::from_secs(30))
        .expect("the inner one waits for the freeze, which waits for the outer");
}

/// F3: a service that registers during a freeze would store into the frozen pool, and would be thawed without having
/// been stopped.
#[test]
fn f3_a_service_that_comes_while_the_pool_stands_still_waits() {
    for register in [Pool::register_freezer, Pool::register_front] {
        let pool = Arc::new(pool());
        let late = service(&pool, "late");
        let is_in = AtomicBool::new(false);
        let (started, starts) = mpsc::channel();
        std::thread::scope(|scope| {
            let frozen = pool.freeze();
            scope.spawn(|| {
                started.send(()).unwrap();
                register(&pool, handle(&late));
                is_in.store(true, Ordering::SeqCst);
            });
            starts.recv().unwrap();
            for _ in 0..1000 {
                assert!(!is_in.load(Ordering::SeqCst), "it came while the pool stood still");
                std::thread::yield_now();
            }
            drop(frozen);
        });
        drop(pool.freeze());
        assert_eq!(late.thawed.load(Ordering::SeqCst), 1, "it stops with the others from then on");
    }
}

/// F2, F6: a front needs space to write its buffer, also space of others.
#[test]
fn f6_a_front_that_empties_itself_is_given_what_services_spare() {
    struct Front(Weak<Pool>, AtomicBool);
    impl Freeze for Front {
        fn freeze(&self) {
            self.1.store(self.0.upgrade().unwrap().take_spare(None), Ordering::SeqCst);
        }
        fn thaw(&self) {}
    }
    let pool = Arc::new(pool());
    let service = service(&pool, "one");
    pool.register_freezer(handle(&service));
    let front = Arc::new(Front(Arc::downgrade(&pool), AtomicBool::new(false)));
    let as_front: Arc<dyn Freeze> = front.clone();
    pool.register_front(Arc::downgrade(&as_front));
    let (done, is_done) = mpsc::channel();
    // Not waited for: it may never end.
    std::thread::spawn(move || {
        drop(pool.freeze());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(30)).expect("the front waits for what its own pool has in hand");
    assert!(front.1.load(Ordering::SeqCst) && service.thawed.load(Ordering::SeqCst) == 1);
}

/// Returns whether a thread that asks by `ask` during a freeze waits for its end, for `long` at least. A service that
/// is asked stores, and would wait at its gate for ever.
fn waits(ask: fn(&Pool) -> bool, long: Duration) -> bool {
    let pool = Arc::new(pool());
    let service = service(&pool, "one");
    pool.register_freezer(handle(&service));
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        let frozen = pool.freeze();
        scope.spawn(|| done.send(catch_unwind(AssertUnwindSafe(|| ask(&pool)))));
        let waits = is_done.recv_timeout(long).is_err();
        drop(frozen);
        assert!(!waits || is_done.recv().unwrap().unwrap(), "it is given something then");
        waits
    })
}

#[test]
fn f6_who_asks_while_services_stand_still_waits() {
    assert!(waits(|pool| pool.take_spare(None), Duration::from_millis(50)));
}

#[test]
fn canary_who_asks_while_services_stand_still_and_does_not_wait_is_found() {
    assert!(!waits(
        |pool| pool.freezers().services().iter().filter_map(Weak::upgrade).any(|service| service.spare()),
        Duration::from_secs(30)
    ));
}

/// Opening it takes long.
#[test]
fn what_nobody_has_open_is_asked_where_nothing_that_is_open_has_any() {
    struct Closed(AtomicU64);
    impl Freeze for Closed {
        fn freeze(&self) {}
        fn thaw(&self) {}
        fn spare_of_unopened(&self) -> bool {
            self.0.fetch_add(1, Ordering::SeqCst) == 0
        }
    }
    let pool = Arc::new(pool());
    let (open, closed) = (service(&pool, "open"), Arc::new(Closed(AtomicU64::new(0))));
    let as_service: Arc<dyn Freeze> = closed.clone();
    pool.register_freezer(Arc::downgrade(&as_service));
    pool.register_freezer(handle(&open));
    assert!(pool.take_spare(None) && closed.0.load(Ordering::SeqCst) == 0);
    drop(open);
    assert_eq!([(); 2].map(|()| pool.take_spare(None)), [true, false]);
}

/// F4: a service that panics while it is stopped does not leave the others stopped.
#[test]
fn f4_a_panic_thaws() {
    struct Broken;
    impl Freeze for Broken {
        fn freeze(&self) {
            panic!("planted");
        }
        fn thaw(&self) {
            unreachable!("it was never stopped");
        }
    }
    let pool = Arc::new(pool());
    let good = service(&pool, "good");
    let broken: Arc<dyn Freeze> = Arc::new(Broken);
    pool.register_freezer(handle(&good));
    pool.register_freezer(Arc::downgrade(&broken));
    let result = catch_unwind(AssertUnwindSafe(|| drop(pool.freeze())));
    assert!(result.is_err());
    assert_eq!(good.thawed.load(Ordering::SeqCst), 1);
    make(&pool, "afterwards");
}

/// A closed service is forgotten, and is not stopped.
#[test]
fn a_closed_service_is_forgotten() {
    let pool = Arc::new(pool());
    let service = service(&pool, "closed");
    pool.register_freezer(handle(&service));
    drop(service);
    drop(pool.freeze());
    assert!(pool.tags().is_empty());
}

/// Has a tag, and is asked for as long as a test wants.
struct Holder {
    _holding: TagLease,
    asked: mpsc::Sender<()>,
    answer: Mutex<mpsc::Receiver<()>>,
}

impl Freeze for Holder {
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare(&self) -> bool {
        self.asked.send(()).unwrap();
        self.answer.lock().recv().is_ok()
    }
}

/// A user of tag `a`, a signal that it is being asked, and the lock that it waits for then.
fn holder(pool: &Arc<Pool>) -> (Arc<Holder>, mpsc::Receiver<()>, mpsc::Sender<()>) {
    make(pool, "a");
    let ((asked, is_asked), (go_on, answer)) = (mpsc::channel(), mpsc::channel());
    let holder = Arc::new(Holder { _holding: pool.hold("a").unwrap(), asked, answer: Mutex::new(answer) });
    pool.register_freezer(Arc::<Holder>::downgrade(&holder));
    (holder, is_asked, go_on)
}

/// F7: during a backup, a tag is free at once when its user has dropped it.
#[test]
fn f7_what_is_dropped_while_the_pool_stands_still_is_gone() {
    let pool = Arc::new(pool());
    let (holder, ..) = holder(&pool);
    let frozen = pool.freeze();
    assert!(matches!(pool.hold("a"), Err(Error::Busy(_))), "it has a user");
    drop(holder);
    drop(pool.hold("a").unwrap());
    drop(frozen);
    pool.remove_unheld("a").unwrap();
}

/// F7: nor does who is asking it.
#[test]
fn f7_what_is_dropped_while_it_is_asked_is_waited_for() {
    let pool = Arc::new(pool());
    let (holder, is_asked, go_on) = holder(&pool);
    std::thread::scope(|scope| {
        scope.spawn(|| pool.take_spare(None));
        is_asked.recv().unwrap();
        drop(holder);
        let hold = scope.spawn(|| pool.hold("a").map(drop));
        while !hold.is_finished() && pool.freezers().calls.try_read().is_some() {
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
        hold.join().unwrap().unwrap();
    });
}
