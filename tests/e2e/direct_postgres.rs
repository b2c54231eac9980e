//! PostgreSQL under `ferrite run`.

use crate::kill::number;
use crate::mount::can_mount;
use crate::programs::{client, ferrite_path};
use crate::server::{folder, run};

/// Runs PostgreSQL as its own user, who owns the pool, because only the pool's user can open it directly.
const POSTGRES: &str = include_str!("direct/postgres.sh");

#[test]
fn postgres_keeps_its_commits_directly_through_kill_rounds_of_it() {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
    let Some(programs) = programs else { return println!("skipped: this machine has no PostgreSQL server") };
    if !can_mount() {
        return;
    }
    let folder = folder(true);
    let mut program = client("unshare");
    program.args(["--mount", "--propagation", "private", "bash", "-c", POSTGRES, "-"]);
    program.arg(ferrite_path()).arg(folder.path()).arg(number("FERRITE_ROUNDS", 3).to_string());
    let message = run(program.arg(programs));
    if message.contains("skipped: ") {
        return println!("{message}");
    }
    assert!(message.contains("none lost") && message.contains(": sound"), "{message}");
    let counts: Vec<serde_json::Value> = message.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(counts.iter().any(|counts| counts["direct"]["calls"].as_u64() > Some(100)), "{message}");
}
