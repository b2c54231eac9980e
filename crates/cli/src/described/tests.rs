//! Tests of the command lines that `cli` derives from a service's description.

use ferrite_owner::ColumnSpec;
use serde_json::json;

use super::*;

const SPEC: CommandSpec = CommandSpec {
    name: "add",
    help: "Add to a counter",
    arguments: &[
        ArgumentSpec { name: "tag", help: "The tag", kind: ArgumentKind::Word },
        ArgumentSpec { name: "counter", help: "The counter", kind: ArgumentKind::Word },
        ArgumentSpec { name: "by", help: "The number to add", kind: ArgumentKind::Number },
        ArgumentSpec { name: "room", help: "The room", kind: ArgumentKind::Size },
        ArgumentSpec { name: "quietly", help: "Say nothing", kind: ArgumentKind::Flag },
    ],
    request: "add",
    table: &[
        ColumnSpec { head: "counter", field: "counter", show: ColumnKind::Text },
        ColumnSpec { head: "count", field: "count", show: ColumnKind::Number },
        ColumnSpec { head: "room", field: "room", show: ColumnKind::Bytes },
    ],
};

fn parsed(words: &[&str]) -> clap::error::Result<DescribedCommand> {
    static KEPT: CommandSpec = SPEC;
    let matches = subcommand(&KEPT).try_get_matches_from([&["add"], words].concat())?;
    read("counters", &KEPT, &matches)
}

#[test]
fn words_and_options_become_the_fields_of_the_request() {
    let all = parsed(&["/the/pool", "t", "c", "--by", "5", "--room", "4K", "--quietly", "--json"]).expect("understood");
    let request = json!({ "do": "add", "tag": "t", "counter": "c", "by": 5, "room": 4096, "quietly": true });
    assert_eq!((all.service, &all.request, all.json), ("counters", &request, true));
    assert!(all.pool.is_named());
    let few = parsed(&["t", "c"]).expect("the default pool");
    assert_eq!(few.request, json!({ "do": "add", "tag": "t", "counter": "c", "quietly": false }));
    assert!(!few.pool.is_named() && !few.json);
}

#[test]
fn what_is_missing_or_wrong_is_refused() {
    for words in [&["t"][..], &["p", "t", "c", "more"], &["t", "c", "--by", "x"], &["t", "c", "--unknown"]] {
        assert!(parsed(words).is_err(), "{words:?}");
    }
}

#[test]
fn rows_are_aligned_by_the_columns_that_are_described() {
    let rows = [json!({ "counter": "a", "count": 5, "room": 4096 }), json!({ "counter": "longer", "count": 1234567 })];
    let lines = ["counter   count  room", "a             5 4 KiB", "longer  1234567     -"];
    let shown = table(&SPEC, &rows);
    assert_eq!(shown, lines.map(|line| format!("{line}\n")).concat());
}
