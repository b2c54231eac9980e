//! WF4, WF7, WF8: the drain of a log is interrupted after every step, and another program opens the database if it can.

use std::fs;

use ferrite_sqlite_log::{GiveBackProgress, forget};

use crate::given_back::{begin, finish};
use crate::shell::Shell;
use crate::{Place, open_pool};

const ROWS: &str = "select count(*), min(v), max(v) from t;";

/// The state of the log when its program is killed: 300 rows of 1 were committed. Page 1 is in the log, which admits a
/// program without Ferrite.
const LET_IN: [[&str; 2]; 2] = [
    ["wal", "update t set v = 1;"],
    ["delete", "update t set v = 1; begin; create table u(n); update t set v = 2, b = randomblob(2999);"],
];

/// The same states without page 1 in the log.
const KEPT_OUT: [[&str; 2]; 2] = [
    ["wal", "pragma wal_checkpoint(truncate); update t set v = 1;"],
    ["delete", "update t set v = 1; begin; update t set v = 2;"],
];

#[derive(Clone, Copy, Debug)]
enum Next {
    Drain,
    Ferrite,
    Forget,
}

fn killed(place: &Place, [mode, work]: [&str; 2]) {
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!("pragma journal_mode={mode}; pragma cache_size=2; create table t(n, b, v);"));
    shell.run("insert into t select value, randomblob(3000), 0 from generate_series(1, 300);");
    shell.run(work);
    shell.kill();
}

/// Makes `steps` steps, and ends in order or as if killed. Returns true if the drain was not finished by then.
fn cut(place: &Place, steps: usize, is_killed: bool) -> bool {
    let mut work = begin(place, &place.path("a.db"));
    let is_over = (0..steps).any(|_| work.step().unwrap() == GiveBackProgress::Done);
    drop(work);
    if is_killed {
        // A killed program leaves these files if the file system has no files without names.
        let parts = ["wal", "journal"].map(|log| place.path(&format!("a.db-{log}.partial")));
        parts.iter().for_each(|part| fs::write(part, "half").unwrap());
    }
    !is_over
}

/// Reads and commits, if the database opens; `committed` rows existed before. Returns the number of rows afterwards.
fn use_it(mut shell: Shell, is_killed: bool, committed: usize) -> (usize, String) {
    let found = shell.ask(ROWS);
    let mut now = committed;
    if !found.is_empty() {
        assert_eq!(found, format!("{committed}|1|1"));
        now += usize::from(shell.ask("insert into t values(0, randomblob(3000), 1); select 7;").ends_with('7'));
        assert_eq!(now, committed + 1, "who may read may write");
    }
    if is_killed {
        shell.kill();
        return (now, String::new());
    }
    (now, shell.end())
}

/// Returns `None` if the drain was finished by then; otherwise true if another program was admitted behind a marked
/// header.
fn cut_at(log: [&str; 2], steps: usize, [is_killed, is_other_killed]: [bool; 2], next: Next) -> Option<bool> {
    let (place, case) = (Place::new(), format!("{log:?}, step {steps}, {is_killed} {is_other_killed}, {next:?}"));
    killed(&place, log);
    if !cut(&place, steps, is_killed) {
        return None;
    }
    let is_marked = place.versions("a.db") == [3, 3];
    let (mut rows, _) = use_it(Shell::plain(&place.path("a.db")), is_other_killed, 300);
    let is_let_in = is_marked && rows > 300;
    match next {
        Next::Drain => {}
        Next::Ferrite => {
            let before = rows;
            let message;
            (rows, message) = use_it(Shell::open(&place.uri("a.db")), false, rows);
            let helps = message.contains("open the database once without Ferrite");
            assert!(rows > before || helps, "{case}: {message}");
        }
        Next::Forget => {
            let log_pool = open_pool(&place.path("pool")).unwrap();
            // The call names no number of bytes to lose, so no data is lost.
            let _ = forget(&log_pool, place.path("a.db").to_str().unwrap(), None);
        }
    }
    finish(begin(&place, &place.path("a.db")));
    let mut plain = Shell::plain(&place.path("a.db"));
    let whole = format!("{rows}|1|1\nok");
    assert_eq!(plain.ask(&format!("{ROWS} pragma integrity_check;")), whole, "{case}");
    assert_eq!(plain.end(), "", "{case}");
    assert_eq!(Shell::open(&place.uri("a.db")).ask(&format!("{ROWS} pragma integrity_check;")), whole, "{case}");
    Some(is_let_in)
}

/// Interrupts a drain of `log` at every place. Returns the number of places, and the number of those at which others
/// were admitted behind a marked header.
fn cuts(log: [&str; 2]) -> [usize; 2] {
    let cases = [
        ([false, false], Next::Drain),
        ([true, false], Next::Drain),
        ([true, true], Next::Drain),
        ([false, true], Next::Ferrite),
        ([true, false], Next::Ferrite),
        ([true, true], Next::Forget),
    ];
    let every = |steps| cases.into_iter().map(|(kills, next)| cut_at(log, steps, kills, next)).collect();
    let cuts: Vec<Vec<bool>> = (0..).map_while(every).collect();
    println!("{log:?}: let in {cuts:?}");
    [cuts.len(), cuts.iter().filter(|cases| cases.iter().all(|is_let_in| *is_let_in)).count()]
}

#[test]
fn wf8_a_cut_that_lets_others_in_loses_nothing_that_any_program_committed() {
    for log in LET_IN {
        let [cuts, let_in] = cuts(log);
        assert!(cuts >= 8 && let_in > 0, "{log:?}: {cuts} cuts, {let_in} that let others in");
    }
}

#[test]
fn wf7_a_cut_that_lets_nobody_in_loses_nothing_that_was_committed() {
    for log in KEPT_OUT {
        let [cuts, let_in] = cuts(log);
        assert!(cuts >= 8 && let_in == 0, "{log:?}: {cuts} cuts, {let_in} that let others in");
    }
}
