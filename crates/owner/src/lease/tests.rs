//! HO1, HO2, HO4, HO5 and HO6 across two processes' ends of a socket; the rest is proven in `pool`.

mod full;
mod refused;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme, Span, forward_memory};
use ferrite_pool::check::{TagOwners, check_open};
use ferrite_pool::grant::GrantId;
use ferrite_pool::holding::{RoleSpace, TagLease, TagSpec};
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Claim, Error, Failure, FailureKind, Format, Pool, Role, Stream, TagKind, TagLog, claim};

use super::*;
use crate::services::{LEASE, LeaseRequest, answer_lease};
use crate::{Handler, ListeningSocket, OwnerClient, ServiceCall, ServiceReply, ServiceRequest};

/// Bytes of a pool: four chunks to use, and an end that is a multiple of nothing.
const POOL_BYTES: u64 = POOL_BYTES_MIN + 2 * CHUNK + 4096 + 3;
/// This boot.
const BOOT: [u8; 16] = [9; 16];

fn format() -> Format {
    Format { uuid: *b"lease pool uuid.", boot_id: BOOT }
}

/// Asserts that the allocator holds exactly what the tags and the pool itself use.
fn account(pool: &Pool) {
    let report = check_open(pool, &TagOwners::default(), &mut |_| ());
    assert!(report.is_sound(), "{report:?}");
}

fn spec(name: &str, has_log: bool) -> TagSpec {
    let part = |role, bytes| RoleSpace { role, bytes };
    let parts = vec![part(Role::MAP, PAGE), part(Role::DATA, 4 * PAGE)];
    TagSpec { name: name.into(), kind: TagKind::OBJECT.0, size: 4 * PAGE, attributes: vec![7; 64], parts, has_log }
}

/// An owner of a pool in a file, which serves nothing but tenants.
struct Owner {
    folder: tempfile::TempDir,
    pool: Arc<Pool>,
    _listening: ListeningSocket,
}

struct LeaseOnly(Arc<Pool>);

impl Handler for LeaseOnly {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        assert_eq!(call.service, LEASE);
        answer_lease(&self.0, BOOT, call)
    }
}

impl Owner {
    fn new() -> Self {
        Self::on(|mapped| mapped)
    }

    fn on(wrap: impl FnOnce(Arc<Mapped>) -> Arc<dyn Memory>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("pool");
        File::create(&path).and_then(|file| file.set_len(POOL_BYTES)).expect("file");
        let Claim::Ours(lock) = claim(&path).expect("claim") else { panic!("held") };
        let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
        let memory = Arc::new(Mapped::map(lock.file().try_clone().expect("file"), &options).expect("map"));
        Pool::create(&*memory, &format()).expect("create");
        let pool = Arc::new(Pool::open(wrap(memory), BOOT).expect("open").0);
        let _listening = ListeningSocket::start(&lock, Arc::new(LeaseOnly(Arc::clone(&pool)))).expect("listen");
        Self { folder, pool, _listening }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn tenant(&self) -> Arc<RemoteTags> {
        let client = OwnerClient::connect(&self.path()).expect("connect");
        Arc::new(RemoteTags::new(client, Guard::None, &self.path()))
    }
}

/// The kind of the error that `refused` is.
fn kind_of<T>(refused: ferrite_pool::Result<T>) -> FailureKind {
    refused.err().expect("refused").kind()
}

/// What the owner refuses of `request`, on a connection of its own.
fn refused(owner: &Owner, request: &LeaseRequest) -> Failure {
    let mut client = OwnerClient::connect(&owner.path()).unwrap();
    match client.call(ServiceRequest::new(LEASE, request), &mut |_| true) {
        Err(crate::Error::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ho1_owner_and_tenants_have_a_tag_one_at_a_time() {
    let owner = Owner::new();
    let (one, other) = (owner.tenant(), owner.tenant());
    one.create(&spec("a", true)).unwrap();
    let held = one.hold("a").unwrap();
    assert_eq!((held.tag().attributes, held.is_lent()), ([7; 64], true));
    for refused in [other.hold("a").unwrap_err(), owner.pool.hold("a").unwrap_err(), other.remove("a").unwrap_err()] {
        let text = refused.to_string();
        assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");
    }
    drop(held);
    let held = owner.pool.hold("a").unwrap();
    assert!(other.hold("a").unwrap_err().to_string().contains("the pool's owner"));
    drop(held);
    drop(other.hold("a").unwrap());
    one.remove("a").unwrap();
    assert_eq!(one.tags().unwrap(), []);
    account(&owner.pool);
}

#[test]
fn refusals_reach_a_tenant_as_what_they_are() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    assert!(kind_of(tenant.create(&spec("a", true))) == FailureKind::Exists);
    assert_eq!(kind_of(tenant.hold("b")), FailureKind::NotFound);
    let mut large = spec("b", true);
    large.parts[1].bytes = 1 << 40;
    assert_eq!(kind_of(tenant.create(&large)), FailureKind::Full);
    assert_eq!(kind_of(tenant.create(&spec("\n", true))), FailureKind::BadName);
    // What other services serve: they would not know.
    for kind in [TagKind::BYTES, TagKind::DISK, TagKind::FILES, TagKind::DATABASE] {
        let name = kind.name();
        TagSpec { kind: kind.0, ..spec(name, false) }.create(&owner.pool).unwrap();
        assert_eq!(kind_of(tenant.hold(name)), FailureKind::Busy, "{name}");
        assert_eq!(kind_of(tenant.remove(name)), FailureKind::Busy, "{name}");
    }
}

/// HO2: a grant on one tag is no right to change another.
#[test]
fn ho2_no_grant_changes_the_parts_of_another_tag() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    for name in ["a", "b"] {
        tenant.create(&spec(name, true)).unwrap();
    }
    let (_mine, _other) = (tenant.hold("a").unwrap(), owner.pool.hold("b").unwrap());
    let (id, parts) = (owner.pool.grants().standing()[0].id, vec![RoleSpace { role: Role::DATA, bytes: 8 * PAGE }]);
    let request = LeaseRequest::Widen { name: "b".into(), id, parts };
    let refused = refused(&owner, &request);
    assert!(
        refused.kind == FailureKind::Busy && refused.message.contains("in use by another user of the pool"),
        "{refused}"
    );
    assert_eq!(Stream::new(&owner.pool.tag("b").unwrap().extents, Role::DATA).len(), 4 * PAGE);
}

/// What a tenant stores is what the owner and the next tenant find; the log runs on a grant as it does on a pool.
#[test]
fn a_log_is_the_same_through_a_grant() {
    let owner = Owner::new();
    owner.tenant().create(&spec("a", true)).unwrap();
    let append = |holding: TagLease, bytes: &[u8]| {
        let log = TagLog::open_within(Arc::new(holding)).unwrap();
        log.append_many(&[bytes]).unwrap();
        log.records().map(|record| record.unwrap().1).collect::<Vec<_>>()
    };
    append(owner.tenant().hold("a").unwrap(), b"one");
    append(owner.pool.hold("a").unwrap(), b"two");
    assert_eq!(append(owner.tenant().hold("a").unwrap(), b"three"), [&b"one"[..], b"two", b"three"]);
}

#[test]
fn ho2_parts_are_widened_by_their_holder_and_keep_their_content() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    let free = owner.pool.usage().free_bytes;
    let holders: [&dyn Fn() -> TagLease; 2] = [&|| tenant.hold("a").unwrap(), &|| owner.pool.hold("a").unwrap()];
    for (hold, pages) in holders.into_iter().zip([2, 4]) {
        let held = hold();
        let part = |role, pages: u64| RoleSpace { role: Role(role), bytes: pages * PAGE };
        held.widen(&[part(2, pages), part(3, 1)]).unwrap();
        let at = held.stream(Role(2)).locate((pages - 1) * PAGE).unwrap().at;
        held.memory().store(at, b"theirs", Scheme::Nt);
        held.drain().unwrap();
        held.widen(&[part(2, pages + 1)]).unwrap();
        held.widen(&[part(2, 1)]).unwrap();
        assert_eq!([2, 3].map(|role| held.stream(Role(role)).len()), [(pages + 1) * PAGE, PAGE]);
        assert_eq!(held.stream(Role(2)).locate((pages - 1) * PAGE).unwrap().at, at, "it stays");
        // All of what is asked for, or nothing.
        let refused = held.widen(&[part(3, 2), part(2, 1 << 28)]);
        assert_eq!(kind_of(refused), FailureKind::Full);
        held.check_poison().unwrap();
        drop(held);
        assert_eq!(owner.pool.usage().free_bytes, free - (pages + 2) * PAGE);
    }
    account(&owner.pool);
}

/// HO8: a holder frees the last pages of its tag, which others get, and its first pages stay with their content.
#[test]
fn ho8_a_holder_frees_space_and_keeps_the_rest() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    let free = owner.pool.usage().free_bytes;
    let held = tenant.hold("a").unwrap();
    let part = |pages: u64| RoleSpace { role: Role(2), bytes: pages * PAGE };
    held.widen(&[part(8)]).unwrap();
    let at = held.stream(Role(2)).locate(0).unwrap().at;
    held.memory().store(at, b"theirs", Scheme::Nt);
    held.drain().unwrap();
    held.narrow(Role(2), 3 * PAGE).unwrap();
    assert_eq!((held.stream(Role(2)).len(), owner.pool.usage().free_bytes), (3 * PAGE, free - 3 * PAGE));
    assert_eq!(owner.pool.grants().standing().len(), 1, "the grant on more has ended");
    owner.pool.hold("a").unwrap_err();
    held.widen(&[part(5)]).unwrap();
    held.narrow(Role(2), 9 * PAGE).unwrap();
    assert_eq!((held.stream(Role(2)).len(), held.stream(Role(2)).locate(0).unwrap().at), (5 * PAGE, at));
    let mut content = [0; 6];
    held.memory().load(at, &mut content);
    assert_eq!(&content, b"theirs");
    let id = GrantId(owner.pool.grants().standing()[0].id.0 + 100);
    let request = LeaseRequest::Narrow { name: "a".into(), id, part: part(1) };
    assert_eq!(refused(&owner, &request).kind, FailureKind::NotFound, "a grant of nobody");
    assert!(matches!(held.set_attributes([0; 64]), Err(Error::Busy(_))));
    drop(held);
    account(&owner.pool);
}

/// A mapping whose host has no more space while it is `full`.
struct Hosted {
    mapped: Arc<Mapped>,
    full: Arc<AtomicBool>,
}

impl Memory for Hosted {
    forward_memory!(self => self.mapped; size, survival, fence_is_durable, load, store, zero, load_word, store_word,
        flush, fence, barrier, share);

    fn reserve(&self, _: Span) -> ferrite_memory::Result<()> {
        if self.full.load(SeqCst) { Err(ferrite_memory::Error::NoSpace("the host's".into())) } else { Ok(()) }
    }
}

/// HO5: a host without space is no failed persist; a tenant goes on with what it has.
#[test]
fn ho5_a_full_host_poisons_nobody() {
    let full = Arc::new(AtomicBool::new(false));
    let owner = Owner::on(|mapped| Arc::new(Hosted { mapped, full: Arc::clone(&full) }));
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    let held = tenant.hold("a").unwrap();
    let parts = [RoleSpace { role: Role(2), bytes: 3 * PAGE }];
    full.store(true, SeqCst);
    let refused = held.widen(&parts).unwrap_err();
    assert!(refused.is_want_of_space(), "{refused}");
    held.check_poison().unwrap();
    full.store(false, SeqCst);
    held.widen(&parts).unwrap();
    assert_eq!(held.stream(Role(2)).len(), 3 * PAGE);
}

/// The pool of `path`, opened again by this process.
fn next_owner(path: &std::path::Path) -> Arc<Pool> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).unwrap();
    Arc::new(Pool::open(Arc::new(memory), BOOT).unwrap().0)
}

#[test]
fn ho4_a_holding_ends_with_its_owner_and_keeps_others_out_until_it_is_dropped() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    let held = Arc::new(tenant.hold("a").unwrap());
    let log = TagLog::open_within(Arc::clone(&held)).unwrap();
    let path = owner.path();
    let Owner { folder: _folder, pool, _listening } = owner;
    _listening.stop().unwrap();
    log.append_many(&[b"with an owner"]).unwrap();
    drop(pool);
    assert!(matches!(tenant.tags(), Err(Error::OwnerEnded)));
    let text = log.append_many(&[b"without an owner"]).unwrap_err();
    assert!(matches!(&text, Error::Revoked(why) if why.contains("has ended")), "{text}");
    assert!(matches!(held.widen(&[RoleSpace { role: Role(2), bytes: PAGE }]), Err(Error::Revoked(_))));
    let next = next_owner(&path);
    assert!(next.hold("a").unwrap_err().to_string().contains("in use by process"));
    drop((log, held));
    end_orphans(&next, &path).unwrap();
    let log = TagLog::open_within(Arc::new(next.hold("a").unwrap())).unwrap();
    assert_eq!(log.records().map(|record| record.unwrap().1).collect::<Vec<_>>(), [b"with an owner"]);
}

#[test]
fn ho4_a_holding_that_is_asked_back_changes_nothing_more() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    for name in ["a", "b"] {
        tenant.create(&spec(name, true)).unwrap();
    }
    let [held, other] = ["a", "b"].map(|name| tenant.hold(name).unwrap());
    assert_eq!(owner.pool.grants().revoke_tag(held.tag().generation), 1);
    let text = held.check_poison().unwrap_err();
    assert!(matches!(&text, Error::Revoked(why) if why.contains("asked for it back")), "{text}");
    other.check_poison().unwrap();
    // A widening brings another grant.
    other.widen(&[RoleSpace { role: Role::DATA, bytes: 8 * PAGE }]).unwrap();
    assert_eq!(owner.pool.grants().revoke_tag(other.tag().generation), 1);
    assert!(matches!(other.check_poison(), Err(Error::Revoked(_))));
    drop(held);
    tenant.hold("a").unwrap().check_poison().unwrap();
}
