//! The commands of README.md, typed by three kinds of newcomers. Commands that take minutes are read and not run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::{NOBODY, Newcomer};
use crate::mount::can_mount;
use crate::server::{can_attach, wait};

/// The beginnings of the commands that take minutes, or need what a clone does not have: the wheel, and an image of a
/// machine.
const LONG: [&str; 7] = [
    "cargo xtask ",
    "python3 -m ferrite.",
    "ferrite up --pool /dev/shm/vm ",
    "qemu-img ",
    "qemu-system-",
    "ferrite doctor",
    "ferrite sim llc ",
];

/// A block of README.md between two fences.
struct Block {
    is_shell: bool,
    lines: Vec<String>,
}

fn readme() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).expect("the page")
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some(Block { is_shell: kind == "sh", lines: Vec::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.into()),
            (None, None) => {}
        }
    }
    blocks
}

/// Returns the commands of the shell blocks in order. Each alternative of `a|b|c` becomes a command, and `FILE` and
/// `COMMAND` get values.
fn commands(page: &str) -> Vec<String> {
    let lines = blocks(page).into_iter().filter(|block| block.is_shell).flat_map(|block| block.lines);
    let own = lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
    let one = own.flat_map(|line| line.split("; ").map(str::to_owned).collect::<Vec<_>>());
    one.filter(|line| !line.is_empty()).flat_map(|line| alternatives(&line)).collect()
}

fn alternatives(line: &str) -> Vec<String> {
    let Some(word) = line.split(' ').find(|word| word.contains('|')) else {
        return vec![line.replace("COMMAND...", "true").replace("FILE", "file")];
    };
    // The page omits the arguments of such a command, so the test asks for its help.
    word.split('|').map(|way| line.replace(word, &format!("{way} --help"))).collect()
}

/// A running `ferrite up`, with the lines that it printed.
struct Up {
    child: Child,
    lines: Vec<String>,
}

impl Up {
    fn start(here: &Newcomer) -> Self {
        let mut up = here.shell("exec ferrite up");
        let mut started = Self { child: up.stdout(Stdio::piped()).spawn().expect("it starts"), lines: Vec::new() };
        let output = BufReader::new(started.child.stdout.take().expect("piped"));
        for line in output.lines().map_while(Result::ok) {
            let is_last = line.contains("ends it");
            started.lines.push(line);
            if is_last {
                return started;
            }
        }
        let status = started.child.wait();
        panic!("it ended with {status:?} before it served: {:?}", started.lines);
    }

    fn has(&self, word: &str) -> bool {
        self.lines.iter().any(|line| line.contains(word))
    }

    fn next(&self) -> &str {
        self.lines.iter().find_map(|line| line.strip_prefix("next")).expect("what to do next").trim()
    }

    fn ended(mut self) {
        assert_eq!(wait(&mut self.child, std::time::Duration::from_secs(60)), Some(0));
    }
}

/// Types all commands of README.md except those that take minutes. Returns the output of `up`.
fn typed(here: &Newcomer) -> Vec<String> {
    let page = readme();
    let mut up = None;
    for command in commands(&page) {
        if command == "cargo run --release -- up" {
            let started = Up::start(here);
            here.run(started.next());
            up = Some(started);
        } else if LONG.iter().any(|long| command.starts_with(long)) {
            println!("left out: {command}");
        } else {
            // The home of this user lies in /dev/shm.
            println!("{command}\n{}", here.run(&command.replace("/dev/shm/", "$HOME/")));
        }
    }
    let mut up: Up = up.expect("README.md starts it");
    // After any kind of kill and a restart, all durable data is there.
    here.run("kill -KILL $(ferrite status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"pools\"][0][\"owner_pid\"])')");
    up.child.wait().expect("a child of ours");
    let again = Up::start(here);
    assert!(again.has("recovered"), "{:?}", again.lines);
    here.run("ferrite down");
    again.ended();
    assert!(here.run("ferrite pool check").contains("sound"));
    up.lines
}

#[test]
fn the_commands_of_readme_work_as_root() {
    if !can_mount() || !can_attach() {
        return;
    }
    let Some(here) = Newcomer::new(None, "") else { return };
    let lines = typed(&here);
    // `up` prints each kind of line in README.md, in the same order.
    let shown = blocks(&readme()).into_iter().find(|block| !block.is_shell).expect("what `up` prints").lines;
    let label = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let labels = |lines: &[String]| lines.iter().map(label).filter(|it| !it.is_empty()).collect::<Vec<_>>();
    assert_eq!(labels(&lines), labels(&shown), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("mounted on")), "{lines:?}");
}

#[test]
fn the_commands_of_readme_end_with_clear_words_for_an_ordinary_user() {
    let Some(here) = Newcomer::new(Some(NOBODY), "") else { return };
    let lines = typed(&here).join("\n");
    assert!(lines.contains("only root may"), "no node: {lines}");
    let is_named =
        ["mounted on", "`chmod 666 /dev/fuse`", "`apt-get install fuse3`"].iter().any(|it| lines.contains(it));
    assert!(is_named, "mounted, or each thing that is missing with its command: {lines}");
}

#[test]
fn the_commands_of_readme_end_with_clear_words_without_fuse() {
    let Some(here) = Newcomer::new(None, "mount --bind /dev/null /dev/fuse || exit 1") else { return };
    let lines = typed(&here).join("\n");
    let missing = "/dev/fuse is not the kernel's fuse device: in a container, start that with `--device /dev/fuse`";
    assert!(lines.contains(&format!("not mounted: {missing}")), "{lines}");
    // A kernel that attaches disks without FUSE needs no such message.
    let is_attached = lines.contains("/dev/nbd");
    assert!(is_attached || lines.contains(&format!("has no NBD, and {missing}")), "{lines}");
    let said = here.refused("ferrite fs mount files mnt", 1);
    assert!(said.contains("/dev/fuse"), "{said}");
}

/// If README.md has a wrong command, it fails here exactly as for a reader.
#[test]
fn commands_are_taken_from_the_page_as_they_stand() {
    let page = "# A\n```sh\nferrite status   # what is there\n\nferrite tag list|get; ferrite run -- COMMAND...\n```\n\
                and\n```\nnot this\n```\n";
    let expected = ["ferrite status", "ferrite tag list --help", "ferrite tag get --help", "ferrite run -- true"];
    assert_eq!(commands(page), expected);
    let Some(here) = Newcomer::new(None, "") else { return };
    here.run(&commands(page)[0]);
    here.refused("ferrite statsu", 2);
}

/// Commands that take minutes are checked as far as a quick look allows.
#[test]
fn what_readme_says_to_build_is_there() {
    let all = commands(&readme());
    let cargo: Vec<_> = all.iter().filter(|line| line.starts_with("cargo ")).collect();
    assert!(cargo.len() >= 3, "{cargo:?}");
    for line in cargo {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1] {
            "run" => assert_eq!(words[2..], ["--release", "--", "up"]),
            "xtask" => assert!(["test", "package"].contains(&words[2]), "{line}"),
            other => panic!("cargo {other}"),
        }
    }
}
