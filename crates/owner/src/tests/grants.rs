//! Grants over the control socket: a client process that is stopped and killed at every step of using one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::check::{TagOwners, check_open};
use ferrite_pool::grant::{GrantId, GrantRequest, GrantRights, Process};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Caller, Claim, Format, NewTag, PidFd, Pool, Result, Role, SpaceNeed, Tag, TagKind, Zone, claim};
use parking_lot::Mutex;
use serde_json::json;

use super::{EndedConnection, Failure, Handler, ListeningSocket, OwnerClient, ServiceCall, ServiceReply, to};

const THIS_BOOT: [u8; 16] = [1; 16];
/// Small enough to fill: two chunks of its own and four to give.
const POOL_BYTES: u64 = 6 * CHUNK;
/// How long an owner waits for a process that may be about to end, see [`EndedConnection::reap`].
const ENDING: Duration = Duration::from_secs(1);
const PART: &str = "FERRITE_GRANT_TEST_PART";
/// Far longer than anything here takes; ends a test that would hang.
const NEVER: Duration = Duration::from_secs(60);
const STEPS: [&str; 4] = ["connect", "grant", "store", "release"];

/// A pool in memory of its own.
fn pool() -> Pool {
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Mapped::anonymous(POOL_BYTES, &options).expect("memory");
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: THIS_BOOT }).expect("create");
    Pool::open(Arc::new(memory), THIS_BOOT).expect("open").0
}

fn need(zone: Zone, bytes: u64) -> SpaceNeed {
    SpaceNeed { role: Role::DATA, zone, bytes }
}

fn tag(pool: &Pool, name: &str, needs: &[SpaceNeed]) -> Result<Arc<Tag>> {
    let new = NewTag { name, kind: TagKind::LOG, size: 1, attributes: [0; 64], needs };
    pool.create_tag(&new, |_| Ok(()))
}

/// This process, which lives as long as the test.
fn ours() -> Process {
    let pid = std::process::id();
    let process = PidFd::open(pid).expect("a living process");
    Process::of(&Caller { pid, uid: 0, process, connection: 0 }, THIS_BOOT)
}

fn ask<'a>(tag: &'a Tag, process: &'a Process) -> GrantRequest<'a> {
    GrantRequest { tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process }
}

/// Bytes that were freed under a grant and are held back for it.
fn held_bytes(pool: &Pool) -> u64 {
    pool.grants().own_extents().iter().map(|extent| extent.span().len).sum()
}

/// Gives grants on the tag that is asked for, and takes them back.
struct Granting {
    pool: Arc<Pool>,
    gone: Mutex<Sender<usize>>,
}

impl Granting {
    fn grant(&self, caller: &Caller, name: &str) -> Result<ServiceReply> {
        let (tag, process) = (self.pool.tag(name)?, Process::of(caller, THIS_BOOT));
        let granted = self.pool.grant(&ask(&tag, &process))?;
        let shared = granted.share(self.pool.memory())?;
        let at = shared.offset + tag.extents[0].span().at;
        Ok(ServiceReply { value: json!({"id": granted.id, "at": at}), fds: vec![shared.fd, granted.notice] })
    }

    fn release(&self, caller: &Caller, id: GrantId) -> Result<ServiceReply> {
        let (process, standing) = (Process::of(caller, THIS_BOOT).identity(), self.pool.grants().standing());
        assert!(standing.iter().any(|grant| grant.id == id && grant.process == process), "its own grant");
        self.pool.grants().release(&self.pool, id).map(|()| ServiceReply::default())
    }
}

impl Handler for Granting {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        let ServiceCall { caller, request, .. } = call;
        let reply = match request["grant"].as_str() {
            Some(name) => self.grant(caller, name),
            None => self.release(caller, GrantId(request["release"].as_u64().expect("an id"))),
        };
        reply.map_err(Failure::from)
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        let reaped = if ended.ends_within(NEVER) { self.pool.grants().reap(&self.pool) } else { Ok(0) };
        let _ = self.gone.lock().send(reaped.expect("reap"));
    }
}

/// A pool in a file, served.
struct Served {
    folder: tempfile::TempDir,
    pool: Arc<Pool>,
    _listening: ListeningSocket,
    gone: Receiver<usize>,
}

fn served() -> Served {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).and_then(|file| file.set_len(POOL_BYTES)).expect("file");
    let Claim::Ours(lock) = claim(&path).expect("claim") else { panic!("held") };
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Arc::new(Mapped::map(lock.file().try_clone().expect("file"), &options).expect("map"));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: THIS_BOOT }).expect("create");
    let pool = Arc::new(Pool::open(memory, THIS_BOOT).expect("open").0);
    let (sender, gone) = channel();
    let handler = Granting { pool: pool.clone(), gone: Mutex::new(sender) };
    let _listening = ListeningSocket::start(&lock, Arc::new(handler)).expect("listen");
    Served { folder, pool, _listening, gone }
}

/// A client process that has come as far as `step`, and stands still there.
fn client(pool: &Path, step: &str) -> Child {
    let mut process = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "tests::grants::play", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{step}\n{}", pool.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    assert!(lines.map_while(|line| line.ok()).any(|line| line.ends_with("ready")), "it did not get as far as {step}");
    process
}

/// What the client process runs; in this one it does nothing.
#[test]
fn play() {
    let Ok(part) = std::env::var(PART) else { return };
    let (last, path) = part.split_once('\n').expect("step and path");
    let steps = STEPS.iter().position(|step| *step == last).expect("a step");
    let mut client = OwnerClient::connect(&PathBuf::from(path)).expect("connect");
    let mut call = |request| client.call(to(&request), &mut |_| true).expect("call");
    let mut held = None;
    for step in &STEPS[1..=steps] {
        match *step {
            "grant" => held = Some(call(json!({"grant": "a"}))),
            "store" => {
                let (value, fds) = held.as_ref().expect("granted");
                let file = File::from(fds[0].try_clone().expect("descriptor"));
                file.write_all_at(b"from outside", value["at"].as_u64().expect("at")).expect("store");
            }
            _ => drop(call(json!({"release": held.as_ref().expect("granted").0["id"]}))),
        }
    }
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// G2, G3, G6.
#[test]
fn g3_a_client_stopped_or_killed_at_any_step_keeps_its_pages_until_it_has_ended() {
    for (number, step) in STEPS.into_iter().enumerate() {
        let served = served();
        let (pool, grants) = (&served.pool, served.pool.grants());
        let free = pool.usage().free_bytes;
        let tag_a = tag(pool, "a", &[need(Zone::Normal, 2 * PAGE)]).expect("tag");
        let mut client = client(&served.folder.path().join("pool"), step);
        let stop = Command::new("kill").args(["-s", "STOP", &client.id().to_string()]).status();
        assert!(stop.expect("kill").success());
        let has_grant = matches!(step, "grant" | "store");
        assert_eq!(grants.standing().len(), usize::from(has_grant), "{step}");
        if number >= 2 {
            let mut bytes = [0; 12];
            pool.memory().load(tag_a.extents[0].span().at, &mut bytes);
            assert_eq!(&bytes, b"from outside", "the owner sees what its client stored");
        }
        pool.remove_tag(&tag_a).expect("a stopped client keeps nobody waiting");
        assert_eq!(held_bytes(pool), if has_grant { 2 * PAGE } else { 0 }, "{step}");
        client.kill().expect("kill");
        client.wait().expect("wait");
        assert_eq!(served.gone.recv_timeout(NEVER).expect("the owner sees it go"), usize::from(has_grant), "{step}");
        assert_eq!((pool.usage().free_bytes, held_bytes(pool)), (free, 0), "{step}");
        assert!(check_open(pool, &TagOwners::default(), &mut |_| ()).is_sound());
    }
}

/// Does as every owner does.
struct Reaping {
    pool: Arc<Pool>,
    gone: Mutex<Sender<()>>,
}

impl Handler for Reaping {
    fn call(&self, _: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        Ok(ServiceReply::default())
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        ended.reap(&self.pool).expect("reap");
        let _ = self.gone.lock().send(());
    }
}

/// A client that lives on is waited for where it has grants, and none of its connections is left.
#[test]
fn nobody_waits_for_a_client_that_has_nothing_to_leave() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).expect("file");
    let Claim::Ours(lock) = claim(&path).expect("claim") else { panic!("held") };
    let (pool, (sender, gone)) = (Arc::new(pool()), channel());
    let _listening = ListeningSocket::start(&lock, Arc::new(Reaping { pool: pool.clone(), gone: Mutex::new(sender) }))
        .expect("listen");
    let connect = || OwnerClient::connect(&path).expect("connect");
    let time = |connections| {
        let began = Instant::now();
        for _ in 0..connections {
            drop(connect());
            gone.recv_timeout(NEVER).expect("the owner sees it go");
        }
        began.elapsed()
    };
    assert!(time(20) < 10 * ENDING, "it has no grants");
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let granted = pool.grant(&ask(&tag, &ours())).expect("grant");
    let other = connect();
    assert!(time(20) < 10 * ENDING, "it has another connection");
    drop(other);
    gone.recv_timeout(NEVER).expect("the owner sees it go");
    assert!(time(1) >= ENDING, "it may be about to end");
    assert!(pool.grants().standing().iter().any(|grant| grant.id == granted.id), "and did not");
}
