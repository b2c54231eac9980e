//! A parent with an open connection forks, and each child opens its own connection, as SQLite requires and preforking
//! servers do.

use std::process::{Command, Output};
use std::sync::Arc;

use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_pool::check::{TagOwners, check};
use ferrite_sqlite_log::{DatabasePool, DatabaseService};

use crate::shell::{Shell, library};
use crate::{Place, open_pool};

/// The common part of the programs.
const COMMON: &str = r#"
import os, signal, sqlite3, sys, time
library, folder = sys.argv[1:3]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(library)

def connect(name):
    uri = f"file:{folder}/{name}?vfs=ferrite&pool={folder}/pool"
    return sqlite3.connect(uri, uri=True, timeout=20, isolation_level=None)

def made(name, mode):
    db = connect(name)
    db.execute(f"pragma journal_mode={mode}").fetchall()
    db.execute("pragma wal_autocheckpoint=0")
    db.execute("create table t(n integer primary key, b)")
    return db

def insert(db, first, count):
    for n in range(first, first + count):
        db.execute("insert into t values(?, zeroblob(40000))", (n,))

def forked(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def wait(*pids):
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids), "a child failed"
"#;

/// Runs `program` in `place` with the system's Python, which loads extensions.
fn run(place: &Place, program: &str, mode: &str) -> Output {
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(COMMON.to_owned() + program).arg(library()).arg(place.path("")).arg(mode);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{mode}: {output:?}");
    output
}

/// Asserts that the pool's tables account for every log in it.
fn assert_sound(place: &Place) {
    let file = std::fs::File::options().read(true).write(true).open(place.path("pool")).unwrap();
    let memory: Arc<dyn Memory> = Arc::new(Mapped::map(file, &MapOptions::default()).unwrap());
    let mut owners = TagOwners::default();
    owners.register(Box::new(DatabaseService));
    let report = check(&memory, &owners, &mut |_| {});
    assert!(report.is_sound(), "{report:?}");
}

const CHILDREN: &str = r#"
parent = made("a.db", sys.argv[3])
def work(k):
    def child():
        insert(made(f"{k}.db", sys.argv[3]), 0, 50)
        insert(connect("a.db"), 1000 * k + 1000, 10)
    return child
pids = [forked(work(k)) for k in range(3)]
insert(parent, 0, 50)
wait(*pids)
os._exit(0)
"#;

fn children_commit(place: &Place, mode: &str, owner: Option<Arc<DatabasePool>>) {
    run(place, CHILDREN, mode);
    drop(owner);
    assert_sound(place);
    for (name, rows) in [("a.db", 80), ("0.db", 50), ("1.db", 50), ("2.db", 50)] {
        let message = Shell::open(&place.uri(name)).ask("select count(*) from t; pragma integrity_check;");
        assert_eq!(message, format!("{rows}\nok"), "{mode}, {name}");
    }
}

/// WF6: the parent owns the pool, and remains its owner.
#[test]
fn wf6_children_of_the_pools_owner_keep_what_they_commit() {
    ["wal", "delete"].into_iter().for_each(|mode| children_commit(&Place::of("/dev/shm", 64 << 20), mode, None));
}

/// WF6: the parent asks another owner, by a socket that its children inherit.
#[test]
fn wf6_children_beside_the_pools_owner_keep_what_they_commit() {
    for mode in ["wal", "delete"] {
        let place = Place::of("/dev/shm", 64 << 20);
        let owner = open_pool(&place.path("pool")).unwrap();
        assert!(owner.is_owner());
        children_commit(&place, mode, Some(owner));
    }
}

const INHERITED: &str = r#"
parent = made("a.db", sys.argv[3])
insert(parent, 0, 5)
def refused(*statements):
    try:
        for statement in statements:
            parent.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        assert "disk I/O error" in str(error), error
    else:
        raise SystemExit(f"{statements} are done")
def child():
    before = sorted(os.listdir(folder))
    refused("insert into t values(99, 99)", "commit")
    refused("select count(*) from t")
    parent.close()
    assert sorted(os.listdir(folder)) == before, before
    insert(connect("b.db" if amid else "a.db"), 100, 5)
amid = False
made("b.db", sys.argv[3]).close()
wait(forked(child))
insert(parent, 5, 5)
parent.execute("begin")
insert(parent, 10, 5)
amid = True
wait(forked(child))
parent.execute("commit")
assert parent.execute("select count(*) from t").fetchone() == (20,)
assert parent.execute("pragma integrity_check").fetchone() == ("ok",)
parent.close()
"#;

/// SV4: a child's calls on its parent's connection are refused, and its closing ends nothing, even during a
/// transaction.
#[test]
fn sv4_a_child_does_nothing_by_its_parents_connection() {
    for mode in ["wal", "delete"] {
        let place = Place::new();
        let output = run(&place, INHERITED, mode);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("a.db: it was opened before this process was forked"), "{mode}: {message}");
        let message = Shell::plain(&place.path("a.db")).ask("select count(*) from t; pragma integrity_check;");
        assert_eq!(message, "20\nok", "{mode}: the parent was the last one");
    }
}

const OUTLIVING: &str = r#"
parent = made("a.db", sys.argv[3])
ends, alive = os.pipe()
def child():
    os.close(alive)
    db = connect("a.db")
    insert(db, 0, 5)
    os.read(ends, 1)
    insert(db, 5, 60)
    open(f"{folder}/done", "w").write("done")
    db.close()
child = forked(child)
insert(parent, 1000, 5)
os._exit(0)
"#;

/// WF6: the owner ends first; its child becomes the owner when the log must grow.
#[test]
fn wf6_a_child_outlives_the_pools_owner() {
    for mode in ["wal", "delete"] {
        let place = Place::new();
        run(&place, OUTLIVING, mode);
        let mut shell = Shell::open(&place.uri("a.db"));
        assert_eq!(shell.ask("select count(*) from t; pragma integrity_check;"), "70\nok", "{mode}");
        assert!(place.path("done").exists(), "{mode}");
    }
}
