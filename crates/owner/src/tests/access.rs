//! The one way to a pool, the registry of services, and failures by their kinds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_disk::{Disk, RamDisk};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Format, NewTag, Pool, Role, SpaceNeed, Tag, TagKind, Zone};

use super::*;
use crate::services::{POOL, PoolRequest, TAG, TagRequest, reply};

/// The kind of the toy's tags.
const TOY: TagKind = TagKind(0x7f00);

/// A service that counts its steps.
struct ToyService;

/// The toy in an open pool.
struct Toy {
    pool: Arc<Pool>,
    steps: AtomicU64,
}

impl TagOwner for ToyService {
    fn kind(&self) -> TagKind {
        TOY
    }

    fn walk(&self, _: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        if tag.size == 13 {
            findings.error("a toy has no such size", None);
        }
    }
}

impl Service for ToyService {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["toy-steps"]
    }

    fn removal(&self) -> Removal {
        Removal::ByCommand { noun: "a toy", command: "ferrite toy remove" }
    }

    fn start(&self, pool: &ServicePool<'_>) -> std::result::Result<Arc<dyn RunningService>, Failure> {
        Ok(Arc::new(Toy { pool: Arc::clone(pool.pool), steps: AtomicU64::new(0) }))
    }
}

impl RunningService for Toy {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        match call.service {
            "toy-steps" => reply(&self.steps.load(Ordering::SeqCst)),
            name => Err(Failure::busy(format!("{name} is busy with {}", call.request))),
        }
    }

    fn step(&self) -> Option<Duration> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        Some(Duration::from_millis(1))
    }

    fn stat(&self, tag: &Tag) -> Option<Value> {
        Some(json!({ "size": tag.size }))
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::counter("toy_steps_total", "Steps done").of(1)]
    }

    fn disk_names(&self) -> Vec<String> {
        let toys = self.pool.tags().into_iter().filter(|tag| tag.kind == TOY);
        toys.map(|tag| tag.name.clone()).collect()
    }

    fn open_disk(&self, name: &str) -> Option<std::result::Result<Arc<dyn Disk>, Failure>> {
        let size = self.pool.tag(name).map(|tag| tag.size).map_err(Failure::from);
        Some(size.map(|size| Arc::new(RamDisk::new(size * 512)) as Arc<dyn Disk>))
    }
}

/// A new pool in a file.
fn pool() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).and_then(|file| file.set_len(POOL_BYTES_MIN + CHUNK)).expect("file");
    let file = File::options().read(true).write(true).open(&path).expect("open");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("map");
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
    (folder, path)
}

fn open(path: &Path, registry: ServiceRegistry) -> PoolAccess {
    PoolAccess::open(path, &Arc::new(registry), Some(Guard::None)).expect("it opens")
}

fn make(pool: &Pool, name: &str, kind: TagKind, size: u64) {
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE }];
    pool.create_tag(&NewTag { name, kind, size, attributes: [0; 64], needs: &needs }, |_| Ok(())).expect("room");
}

fn call(access: &mut PoolAccess, request: ServiceRequest<'_>) -> Result<Value> {
    access.call(request, &mut |_| true).map(|reply| reply.value)
}

fn refused(access: &mut PoolAccess, request: ServiceRequest<'_>) -> Failure {
    match call(access, request) {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_opening_owns_the_pool_and_the_next_one_asks_it() {
    let (_folder, path) = pool();
    let mut owner = open(&path, ServiceRegistry::default());
    let mut client = open(&path, ServiceRegistry::default());
    assert!(owner.owner().is_some() && client.owner().is_none());
    assert_eq!((owner.owner_pid(), client.owner_pid()), (None, Some(std::process::id())));
    for access in [&mut owner, &mut client] {
        let pool = call(access, ServiceRequest::new(POOL, &PoolRequest::Info)).expect("info");
        let uuid = ferrite_pool::show_uuid(&[7; 16]);
        assert_eq!((pool["uuid"].as_str(), pool["tags"].as_u64()), (Some(uuid.as_str()), Some(0)));
        assert_eq!(call(access, ServiceRequest::new(TAG, &TagRequest::List)).expect("list"), json!([]));
        let report = call(access, ServiceRequest::new(POOL, &PoolRequest::Check)).expect("check");
        assert_eq!(report["findings"], json!([]));
    }
    drop(client);
    let PoolAccess::Owner(owner) = owner else { panic!("a client") };
    assert!(Arc::into_inner(owner).expect("alone").close().expect("it closes"), "in order");
    assert!(open(&path, ServiceRegistry::default()).owner().expect("again").recovery().clean);
}

#[test]
fn a_failure_has_its_kind_and_its_words_on_both_sides_of_the_socket() {
    let (_folder, path) = pool();
    let mut owner = open(&path, ServiceRegistry::default());
    let mut client = open(&path, ServiceRegistry::default());
    let get = || ServiceRequest::new(TAG, &TagRequest::Remove { name: "none".into() });
    let (here, there) = (refused(&mut owner, get()), refused(&mut client, get()));
    assert_eq!((here.kind, here.message.as_str()), (FailureKind::NotFound, there.message.as_str()));
    assert_eq!(here, there);
    let nonsense = refused(&mut client, ServiceRequest::new(TAG, &json!({"do": "nonsense"})));
    assert_eq!(nonsense.kind, FailureKind::BadRequest, "{nonsense}");
}

#[test]
fn a_service_that_is_not_linked_is_refused_by_kind_with_the_command_that_serves_it() {
    let (_folder, path) = pool();
    let owner = open(&path, ServiceRegistry::default());
    make(owner.owner().expect("owned").pool(), "d", TagKind::DISK, 512);
    make(owner.owner().expect("owned").pool(), "t", TOY, 1);
    let mut client = open(&path, ServiceRegistry::default());
    let requests = [
        ServiceRequest::new("disk", &json!({"do": "list"})),
        ServiceRequest::new("toy", &json!({})),
        ServiceRequest::new(TAG, &TagRequest::Remove { name: "d".into() }),
    ];
    for request in requests {
        let failure = refused(&mut client, request);
        let pid = format!("process {}", std::process::id());
        assert_eq!(failure.kind, FailureKind::NotServed, "{failure}");
        assert!(failure.message.contains("`ferrite up`") && failure.message.contains(&pid), "{failure}");
        assert!(!failure.message.contains('\n'), "one line: {failure}");
    }
    call(&mut client, ServiceRequest::new(TAG, &TagRequest::Remove { name: "t".into() })).expect("nobody has it");
}

#[test]
fn a_registered_service_answers_by_its_names_and_is_found_by_its_kind() {
    let (_folder, path) = pool();
    let owner = open(&path, ServiceRegistry::default().with(ToyService));
    let owned = Arc::clone(owner.owner().expect("owned"));
    make(owned.pool(), "bear", TOY, 3);
    make(owned.pool(), "bad", TOY, 13);
    let mut client = open(&path, ServiceRegistry::default());
    let failure = refused(&mut client, ServiceRequest::new("toy", &json!(7)));
    assert_eq!(failure, Failure::busy("toy is busy with 7"));
    let stat = call(&mut client, ServiceRequest::new(TAG, &TagRequest::Stat { name: "bear".into() }));
    assert_eq!(stat.expect("stat"), json!({ "size": 3 }));
    let metrics = call(&mut client, ServiceRequest::new(POOL, &PoolRequest::Metrics)).expect("metrics");
    let toy = metrics.as_array().expect("a list").iter().find(|metric| metric["name"] == "toy_steps_total");
    assert_eq!(toy.expect("the toy counts")["samples"][0]["value"], 1.0);
    assert_eq!(metrics[0]["name"], "pool_size_bytes");
    let removal = refused(&mut client, ServiceRequest::new(TAG, &TagRequest::Remove { name: "bear".into() }));
    assert_eq!(
        (removal.kind, removal.message.as_str()),
        (FailureKind::Refused, "\"bear\" is a toy: use `ferrite toy remove`")
    );
    let report = call(&mut client, ServiceRequest::new(POOL, &PoolRequest::Check)).expect("check");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(owned.running().disk_names(), ["bad", "bear"]);
    let disk = owned.running().open_disk(owned.pool(), "bear").expect("its service opens disks").expect("it opens");
    assert_eq!(disk.geometry().size, 3 * 512);
    assert!(owned.running().open_disk(owned.pool(), "none").is_none());
}

#[test]
fn steps_go_on_until_the_owner_ends() {
    let (_folder, path) = pool();
    let mut owner = open(&path, ServiceRegistry::default().with(ToyService));
    let steps = |owner: &mut PoolAccess| call(owner, ServiceRequest::new("toy-steps", &json!({}))).expect("steps");
    let first = steps(&mut owner).as_u64().expect("a number");
    while steps(&mut owner).as_u64() < Some(first + 3) {
        std::thread::yield_now();
    }
    let PoolAccess::Owner(owner) = owner else { panic!("a client") };
    assert!(Arc::into_inner(owner).expect("alone").close().expect("it closes"), "no thread keeps the pool");
}

#[test]
#[should_panic(expected = "two services are called \"toy\"")]
fn a_name_is_registered_once() {
    drop(ServiceRegistry::default().with(ToyService).with(ToyService));
}

#[test]
fn an_owner_that_holds_a_tag_is_not_closed_in_order() {
    let (_folder, path) = pool();
    let owner = open(&path, ServiceRegistry::default());
    let PoolAccess::Owner(owner) = owner else { panic!("a client") };
    make(owner.pool(), "o", TagKind::OBJECT, 1);
    assert!(!owner.is_held());
    let held = owner.pool().hold("o").expect("held").keeping(owner.lock());
    assert!(owner.is_held());
    assert!(!Arc::into_inner(owner).expect("alone").close().expect("it ends"), "the holding has the pool");
    drop(held);
    assert!(!open(&path, ServiceRegistry::default()).owner().expect("again").recovery().clean);
}
