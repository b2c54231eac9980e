//! The library as C programs use it: installed, found by pkg-config, compiled against, and run under valgrind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use ferrite_guest::{GuestDiskPlace, GuestRequest, GuestService, PmRange};
use ferrite_object::{Finish, NewStore, OpenStore, Store};
use ferrite_owner::{PoolAccess, PoolOwner, ServiceRegistry, ServiceRequest};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;

const EXAMPLES: [&str; 4] = ["counter", "words", "jobs", "bank"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder with the built libraries: the folder of this program, or one around it.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let folder = program.ancestors().skip(1).find(|folder| folder.join("libferrite.so").is_file());
    folder.expect("the library is built before its tests").to_owned()
}

fn run(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        run(Command::new(here().join("install.sh")).arg(folder.path()).arg(built()), "");
        Self { folder }
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        let describe = command.args(more).args(["--cflags", "--libs", "ferrite"]);
        let describe = run(describe.env("PKG_CONFIG_PATH", self.folder.path().join("lib/pkgconfig")), "");
        describe.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles an example, against the shared library or the static one.
    fn compile(&self, name: &str, is_static: bool) -> PathBuf {
        self.compile_from("examples", name, is_static)
    }

    fn compile_from(&self, folder: &str, name: &str, is_static: bool) -> PathBuf {
        let program = self.folder.path().join(format!("{name}{}", if is_static { "-static" } else { "" }));
        let lib = self.folder.path().join("lib");
        let mut flags = self.flags(if is_static { &["--static"] } else { &[] });
        if is_static {
            flags.retain(|flag| flag != "-lferrite");
            flags.insert(0, lib.join("libferrite.a").display().to_string());
        }
        let source = here().join(format!("{folder}/{name}.c"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-o"]).arg(&program).arg(source);
        run(gcc.args(flags).arg(format!("-Wl,-rpath,{}", lib.display())), "");
        program
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns a command under valgrind, which fails at any bad access and any lost memory.
fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]);
    command.arg(program);
    command
}

/// Checks the output of each example; `command` starts it on its store.
fn check(command: &dyn Fn(&str) -> Command) {
    let describe = (0..3).map(|_| run(&mut command("counter"), "")).collect::<Vec<_>>();
    assert_eq!(describe, ["1 1\n", "2 5\n", "3 14\n"]);
    assert_eq!(run(&mut command("words"), "to be or\nnot to be\n"), "be 2\nnot 1\nor 1\nto 2\n");
    assert_eq!(run(&mut command("words"), "or\n"), "be 2\nnot 1\nor 2\nto 2\n");
    let describe = run(command("jobs").args(["wash", "dry"]), "");
    assert_eq!(describe, "0 wash\n1 dry\ndone: object of 4096 bytes\njobs: object of 4194304 bytes\n");
    let many: Vec<String> = (2..70).map(|number| format!("job{number}")).collect();
    let describe = run(command("jobs").args(&many), "");
    assert!(describe.starts_with("10 job10\n") && describe.contains("\n69 job69\n"), "{describe}");
    let bank = |words: &[&str]| run(command("bank").args(words), "");
    assert_eq!(bank(&["ada", "100"]), "ada has 100\n");
    assert_eq!(bank(&["ada", "bob", "30"]), "ada has 70\nbob has 30\n30 from ada to bob\n");
    let refused = bank(&["ada", "bob", "71"]);
    assert_eq!(refused, "ada has not so much\nada has 70\nbob has 30\n30 from ada to bob\n");
}

#[test]
fn examples_do_what_they_say_with_either_library() {
    let installed = Installed::new();
    for is_static in [false, true] {
        let programs: BTreeMap<&str, PathBuf> =
            EXAMPLES.iter().map(|name| (*name, installed.compile(name, is_static))).collect();
        check(&|name| {
            let mut command = Command::new(&programs[name]);
            command.arg(installed.store(&format!("{name}-{is_static}.pool")));
            command
        });
    }
}

/// A program without any shared library, built with the flags of pkg-config only.
#[test]
fn a_program_that_is_static_altogether_links_and_runs() {
    let installed = Installed::new();
    let program = installed.folder.path().join("counter");
    let mut gcc = Command::new("gcc");
    gcc.arg("-static").arg("-o").arg(&program).arg(here().join("examples/counter.c"));
    run(gcc.args(installed.flags(&["--static"])), "");
    assert_eq!(run(Command::new(&program).arg(installed.store("counter.pool")), ""), "1 1\n");
}

#[test]
fn examples_lose_no_memory_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return;
    }
    let installed = Installed::new();
    for (name, arguments) in [("counter", &[][..]), ("words", &[]), ("jobs", &["one", "two"]), ("bank", &["ada", "9"])]
    {
        let program = installed.compile(name, false);
        let describe = |mut command: Command| {
            run(command.arg(installed.store(&format!("{name}.pool"))).args(arguments), "a b a\n")
        };
        describe(valgrind(&program));
        // Content stored without the instructions that valgrind lacks is there for the processor that has them.
        let next = describe(Command::new(&program));
        assert!(!next.is_empty() && next != "1 1\n", "{next}");
    }
}

/// A program that prints the owner of its store, and then waits for a line.
struct Waiting {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Waiting {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it says something").expect("text")
    }

    fn go_on(&mut self) {
        self.process.stdin.as_mut().expect("piped").write_all(b"\n").expect("it waits");
    }

    fn kill(mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("reaped");
    }

    fn end(mut self) {
        self.go_on();
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

/// HO4: a client whose owner was killed learns it from its next change of any object, and loses no acknowledged change.
fn outlive(client: &mut Command, server: &mut dyn FnMut() -> Command, is_served_again: bool) {
    let mut owner = Waiting::start(&mut server());
    assert_eq!(owner.line(), "0", "it owns the store itself");
    let mut client = Waiting::start(client);
    assert_eq!(client.line(), owner.process.id().to_string());
    owner.kill();
    let next = is_served_again.then(|| {
        let mut next = Waiting::start(&mut server());
        assert_eq!(next.line(), "0");
        next
    });
    client.go_on();
    let describe = client.line();
    assert!(describe.contains("has ended") && describe.contains("open the pool again"), "{describe}");
    assert_eq!(client.line(), next.as_ref().map_or(0, |next| next.process.id()).to_string());
    client.end();
    if let Some(next) = next {
        next.end();
    }
}

#[test]
fn a_killed_owner_revokes_what_it_lent() {
    let installed = Installed::new();
    let program = installed.compile_from("tests", "survivor", false);
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    for (number, (checked, is_served_again)) in [(false, false), (false, true), (true, true)].into_iter().enumerate() {
        if checked && !has_valgrind {
            println!("skipped: there is no valgrind");
            continue;
        }
        let store = installed.store(&format!("{number}.pool"));
        let mut client = if checked { valgrind(&program) } else { Command::new(&program) };
        let mut server = || {
            let mut server = Command::new(&program);
            server.arg(&store).arg("serve");
            server
        };
        outlive(client.arg(&store).arg("use"), &mut server, is_served_again);
    }
}

/// A null pointer in the place of a result loses nothing.
#[test]
fn a_call_that_cannot_tell_its_result_does_nothing() {
    let installed = Installed::new();
    run(Command::new(installed.compile_from("tests", "misuse", false)).arg(installed.store("misuse.pool")), "");
}

/// Programs act by the status: open an existing store, wait for a busy one, give up a change that never fits.
#[test]
fn a_failure_has_the_status_that_the_header_gives_it() {
    let installed = Installed::new();
    run(Command::new(installed.compile_from("tests", "status", false)).arg(installed.store("status.pool")), "");
}

/// A program that finds the store busy retries with the same pointer.
#[test]
fn a_finalize_whose_backup_fails_leaves_the_store_open() {
    let installed = Installed::new();
    let program = installed.compile_from("tests", "finalize", false);
    run(Command::new(&program).arg(installed.store("finalize.pool")), "");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        run(valgrind(&program).arg(installed.store("checked.pool")), "");
    }
}

/// BU1: a change of a bundle is in all its members or in none, and a plan never waits for itself.
#[test]
fn bu1_bundles_change_as_one_and_lose_no_memory() {
    let installed = Installed::new();
    let program = installed.compile_from("tests", "bundle", false);
    run(Command::new(&program).arg(installed.store("bundle.pool")), "");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        run(valgrind(&program).arg(installed.store("checked.pool")), "");
    }
}

/// LG4, AL2: a salvage reports its losses.
#[test]
fn lg4_al2_what_is_damaged_is_told_and_what_is_left_is_read() {
    let installed = Installed::new();
    let program = installed.compile_from("tests", "salvage", false);
    run(Command::new(&program).arg(installed.store("salvage.pool")), "");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        run(valgrind(&program).arg(installed.store("checked.pool")), "");
    }
}

/// A child of fork has its parent's pointers and mappings: two processes that store into one log would destroy it.
#[test]
fn a_child_of_fork_leaves_its_parents_objects_alone() {
    let installed = Installed::new();
    run(Command::new(installed.compile_from("tests", "fork", false)).arg(installed.store("fork.pool")), "");
}

/// Makes a pool on tmpfs with the guest "g" of 8 MiB, and returns its folder and the pool's owner.
fn pool_with_guest() -> (tempfile::TempDir, Arc<PoolOwner>) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let pool = folder.path().join("pool");
    let new = NewStore { bytes: 32 << 20, uuid: [7; 16] };
    Store::initialize(&pool, &new, &OpenStore::default()).expect("made").finalize(&Finish::default()).expect("closed");
    let disk = folder.path().join("disk");
    File::create_new(&disk).expect("a file").set_len((8 << 20) + DISK_STAMP_BYTES).expect("sized");
    let registry = Arc::new(ServiceRegistry::default().with(GuestService::of_files()));
    let PoolAccess::Owner(owner) = PoolAccess::open(&pool, &registry, None).expect("it opens") else {
        panic!("another process owns it");
    };
    let disk = GuestDiskPlace { address: disk.display().to_string(), path: PathBuf::new() };
    let pm = Some(PmRange::fixed(2 << 20));
    let create = GuestRequest::Create { name: "g".into(), size: 8 << 20, pm, weight: None, disk };
    owner.call(ServiceRequest::of(&create), &mut |_| true).expect("created");
    (folder, owner)
}

/// PV1, PV2: a region has what was persisted, through the owner of its pool and without one.
#[test]
fn pv1_pv2_a_region_has_what_was_persisted() {
    let installed = Installed::new();
    let program = installed.compile_from("tests", "region", false);
    let journal = installed.compile("journal", false);
    let (folder, owner) = pool_with_guest();
    let status = Command::new(&program).arg(folder.path().join("pool")).arg("g").status().expect("it runs");
    if status.code() == Some(9) {
        println!("skipped: this machine reports no faults");
        return;
    }
    assert!(status.success(), "{status}");
    drop(owner);
    run(Command::new(&program).arg(pool_with_guest().0.path().join("pool")).arg("g"), "");
    let (folder, _) = pool_with_guest();
    let append = |words: &[&str]| run(Command::new(&journal).arg(folder.path().join("pool")).arg("g").args(words), "");
    assert_eq!(append(&["ada", "bob"]), "ada\nbob\n");
    assert_eq!(append(&["eve"]), "ada\nbob\neve\n");
}

/// Every function of the header is in the library with as many arguments, and the reverse.
#[test]
fn the_header_tells_of_every_function() {
    let header = std::fs::read_to_string(here().join("include/ferrite.h")).expect("the header");
    let mut describe = BTreeMap::new();
    for (at, _) in header.match_indices("ferrite_") {
        let begins = header[..at].ends_with(['*', ' '])
            && header[..at]
                .rsplit('\n')
                .next()
                .is_some_and(|line| line.starts_with("int ") || line.starts_with("const char "));
        if let Some((name, rest)) =
            header[at..].split_once('(').filter(|(name, _)| begins && !name.contains([' ', '\n']))
        {
            describe.insert(name.to_owned(), arguments(rest, ';'));
        }
    }
    let mut done = BTreeMap::new();
    for file in std::fs::read_dir(here().join("src")).expect("sources").flatten() {
        let source = std::fs::read_to_string(file.path()).expect("a source");
        for (at, _) in source.match_indices("fn ferrite_") {
            let (name, rest) = source[at + 3..].split_once('(').expect("arguments");
            done.insert(name.to_owned(), arguments(rest, '{'));
        }
    }
    assert!(describe.len() > 40, "{}", describe.len());
    assert_eq!(describe, done);
}

/// Returns the number of arguments before the closing parenthesis.
fn arguments(rest: &str, end: char) -> usize {
    let list = rest.split(end).next().unwrap_or_default();
    let (mut depth, mut commas, mut any) = (0, 0, false);
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => break,
            ')' => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
        any |= !letter.is_whitespace() && letter != ',';
    }
    let is_void = list.trim_start().starts_with("void)");
    let trailing = list.split(')').next().is_some_and(|all| all.trim_end().ends_with(','));
    if any && !is_void { commas + 1 - usize::from(trailing) } else { 0 }
}
