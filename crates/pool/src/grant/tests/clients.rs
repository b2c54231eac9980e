//! G3, G5, G6: clients that are stopped, killed, or never answer.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Child, Command};

use ferrite_memory::{Guard, MapOptions, Mapped, SharedWords};

use super::*;

/// A process that does nothing until it is killed.
struct Idle(Child);

impl Idle {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().expect("sleep"))
    }

    fn process(&self) -> Process {
        Process::of(&caller(self.0.id()), THIS_BOOT)
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().expect("kill").success());
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn g3_a_stopped_client_keeps_its_pages_and_a_killed_one_loses_them() {
    let pool = pool();
    let free = pool.usage().free_bytes;
    let mut client = Idle::new();
    let tag = tag(&pool, "a", &[need(Zone::Normal, 3 * PAGE)]).expect("tag");
    pool.grant(&ask(&tag, &client.process())).expect("grant");
    client.signal("STOP");
    pool.remove_tag(&tag).expect("a stopped client keeps nobody waiting");
    assert!(pool.grants().standing()[0].asked, "a removal asks for the grants on the tag");
    assert_eq!(pool.grants().reap(&pool).expect("reap"), 0);
    assert_held(&pool, &tag.extents);
    client.kill();
    assert_eq!(pool.grants().reap(&pool).expect("reap"), 1);
    assert_eq!((pool.usage().free_bytes, pool.grants().standing()), (free, vec![]));
    assert_accounted(&pool);
}

#[test]
fn g2_a_client_that_outlives_its_owner_is_known_to_the_next() {
    let memory = formatted(Model::MAPPED);
    let (pool, mut client) = (opened(&memory, THIS_BOOT), Idle::new());
    let tag = tag(&pool, "a", &[need(Zone::Normal, 3 * PAGE)]).expect("tag");
    pool.grant(&ask(&tag, &client.process())).expect("grant");
    pool.remove_tag(&tag).expect("remove");
    drop(pool);
    let killed = Arc::new(memory.kill());
    let pool = opened(&killed, THIS_BOOT);
    assert_held(&pool, &tag.extents);
    client.kill();
    assert_eq!(pool.grants().reap(&pool).expect("reap"), 1);
    assert_eq!(pool.grants().held_bytes(), 0);

    let pool = opened(&Arc::new(memory.kill()), THIS_BOOT);
    assert_eq!(pool.grants().standing(), vec![], "it had ended before this owner came");
    assert_accounted(&pool);
}

/// A client that outlives its owner would store into a new pool in the same place.
#[test]
fn g5_clients_of_a_pool_that_nobody_owns_are_known() {
    let memory = formatted(Model::MAPPED);
    let (pool, mut client) = (opened(&memory, THIS_BOOT), Idle::new());
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    pool.grant(&ask(&tag, &client.process())).expect("grant");
    pool.grant(&ask(&tag, &long_gone())).expect("grant");
    drop(pool);
    let dynamic: Arc<dyn Memory> = Arc::new(memory.kill());
    let message = ensure_no_clients(&dynamic, THIS_BOOT).expect_err("one lives").to_string();
    assert!(message.contains(&format!("({})", client.0.id())), "{message}");
    ensure_no_clients(&dynamic, LATER_BOOT).expect("nobody lives on in another boot");
    client.kill();
    ensure_no_clients(&dynamic, THIS_BOOT).expect("it has ended");
    dynamic.zero(Span::new(0, 2 * PAGE), Scheme::Nt);
    ensure_no_clients(&dynamic, THIS_BOOT).expect("no pool, nobody who uses it");
}

#[test]
fn g5_a_process_is_known_by_more_than_its_number() {
    let mut client = Idle::new();
    let known = client.process().identity();
    let lives = |identity| Process::recall(identity, THIS_BOOT).is_alive();
    assert!(known.start_ticks != 0 && known.namespace != 0);
    assert!(lives(known));
    assert!(!lives(ProcessIdentity { boot_id: LATER_BOOT, ..known }), "another boot");
    assert!(!lives(ProcessIdentity { start_ticks: known.start_ticks - 1, ..known }), "an earlier one of that number");
    assert!(lives(ProcessIdentity { namespace: known.namespace ^ 1, ..known }), "another namespace cannot be judged");
    assert!(lives(ProcessIdentity { pid: 0, ..known }), "nor can what has no number here");
    client.kill();
    assert!(!lives(known));
    let pid = thread_number();
    assert!(!lives(ProcessIdentity { pid, ..known }), "its number is a thread's of another process now");
}

/// The number of a thread of this process, not the first: it is no process's while this test runs.
fn thread_number() -> u32 {
    let own = std::fs::read_link("/proc/thread-self").expect("this thread");
    let number = own.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    number.filter(|number| *number != std::process::id()).expect("tests run in threads of their own")
}

#[test]
fn g6_a_revocation_rings_once_and_waits_for_nobody() {
    let pool = pool();
    let process = ours();
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let granted = pool.grant(&ask(&tag, &process)).expect("grant");
    (0..100_000).for_each(|_| assert_eq!(pool.grants().revoke_tag(tag.generation), 1));
    assert!(pool.grants().touch(tag.extents[0]) && pool.grants().standing()[0].asked);
    pool.grants().release(&pool, granted.id).expect("release");
    let mut rung = Vec::new();
    std::fs::File::from(granted.notice).read_to_end(&mut rung).expect("hangs up when the grant has ended");
    assert_eq!(rung, [1]);
    assert_eq!(pool.grants().revoke_tag(tag.generation), 0);
    assert!(!pool.grants().touch(tag.extents[0]));
}

/// G6: a revocation before the grant has a word on the board is not lost.
#[test]
fn g6_a_grant_that_was_asked_back_before_it_has_a_word_has_that_rung() {
    let (pool, process) = (pool(), ours());
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let granted = pool.grant(&ask(&tag, &process)).expect("grant");
    assert_eq!(pool.grants().revoke_tag(tag.generation), 1);
    let board = pool.holdings.board().expect("board");
    let word = pool.grants().tie(granted.id, board).expect("tied");
    let words: SharedWords = SharedWords::of(board.share().expect("shared")).expect("mapped");
    assert_eq!(words.word(word).load(std::sync::atomic::Ordering::Acquire), 1);
}

#[test]
fn every_slot_can_be_used_and_one_more_is_refused() {
    let pool = pool();
    let mut client = Idle::new();
    let (ours, theirs) = (ours(), client.process());
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let all = crate::layout::GRANT_SLOTS;
    for number in 0..all {
        pool.grant(&ask(&tag, if number % 2 == 0 { &ours } else { &theirs })).expect("a slot");
    }
    assert!(matches!(pool.grant(&ask(&tag, &ours)), Err(Error::Limit(_))));
    client.kill();
    pool.grant(&ask(&tag, &ours)).expect("the slot of a client that has ended");
    let ids: BTreeSet<_> = pool.grants().standing().iter().map(|grant| grant.id).collect();
    assert_eq!(ids.len() as u64, all / 2 + 1, "no serial is used twice");
}

/// The descriptor shares no lock with the owner's, and lets its holder do what the grant says.
#[test]
fn g3_what_cannot_be_shared_is_lent_to_nobody() {
    let pool = pool();
    let tag = tag(&pool, "tag", &[need(Zone::Normal, PAGE)]).expect("create");
    // The memory has no descriptor to share. Each time a slot, were it kept.
    for _ in 0..100 {
        assert!(matches!(pool.lend(&ask(&tag, &ours())), Err(Error::Medium(_))));
    }
    assert!(pool.grants().standing().is_empty());
}

#[test]
fn a_granted_descriptor_has_the_rights_of_the_grant_and_no_part_in_the_lock() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    std::fs::File::create(&path).and_then(|file| file.set_len(POOL_BYTES)).expect("file");
    let crate::Claim::Ours(lock) = crate::claim(&path).expect("claim") else { panic!("held") };
    let file = lock.file().try_clone().expect("file");
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Arc::new(Mapped::map(file, &options).expect("map"));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: THIS_BOOT }).expect("create");
    let pool = Pool::open(memory, THIS_BOOT).expect("open").0;
    let process = ours();
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let at = tag.extents[0].span().at;
    let share = |rights| {
        let granted = pool.grant(&GrantRequest { rights, ..ask(&tag, &process) }).expect("grant");
        let shared = granted.share(pool.memory()).expect("share");
        (std::fs::File::from(shared.fd), shared.offset + at)
    };
    let (writer, at) = share(GrantRights::ReadWrite);
    writer.write_all_at(b"bytes", at).expect("may write");
    let (reader, at) = share(GrantRights::Read);
    let mut bytes = [0; 5];
    reader.read_exact_at(&mut bytes, at).expect("may read");
    assert_eq!(&bytes, b"bytes");
    assert!(reader.write_all_at(b"bytes", at).is_err(), "may not write");
    drop((pool, lock));
    assert!(matches!(crate::claim(&path).expect("claim"), crate::Claim::Ours(_)), "clients hold no lock");
    drop((writer, reader));
}

/// A backup is one moment (BK1): it is refused if a client may store, and the client keeps its grant. A client that
/// only reads, or that has ended, does not prevent it. After a power failure a backup waits for no client.
#[test]
fn bk1_a_backup_beside_a_writing_client_is_refused_and_costs_it_nothing() {
    use crate::backup::{backup, save_to};
    let (pool, mut client) = (pool(), Idle::new());
    let tag = tag(&pool, "a", &[need(Zone::Normal, 3 * PAGE)]).expect("tag");
    let process = client.process();
    pool.grant(&GrantRequest { rights: GrantRights::Read, ..ask(&tag, &process) }).expect("grant");
    backup(&pool, &mut Vec::new(), [3; 16], &mut |_| true).expect("a reader is no harm");
    pool.grant(&ask(&tag, &process)).expect("grant");
    let said = backup(&pool, &mut Vec::new(), [3; 16], &mut |_| true).expect_err("a writer").to_string();
    assert!(said.contains(&format!("write to the pool directly ({})", client.0.id())), "{said}");
    assert!(pool.grants().standing().iter().all(|grant| !grant.asked), "it works on");
    let folder = tempfile::tempdir().expect("folder");
    save_to(&pool, &folder.path().join("image"), [3; 16], &mut |_| true).expect("the power fails");
    client.kill();
    backup(&pool, &mut Vec::new(), [3; 16], &mut |_| true).expect("it has ended");
    assert_eq!(pool.grants().standing(), []);
}

/// One that has ended since the dead were looked for last stores no more (G3), and is no reason to refuse a backup.
#[test]
fn bk1_a_client_that_has_ended_keeps_no_backup_waiting() {
    let pool = pool();
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    pool.grant(&ask(&tag, &long_gone())).expect("grant");
    pool.grants().refuse_writers(&pool, &[]).expect("nobody stores");
    pool.grant(&ask(&tag, &ours())).expect("grant");
    pool.grants().refuse_writers(&pool, &[]).expect_err("somebody may");
}
