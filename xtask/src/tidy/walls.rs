//! Who may name whom (DESIGN section 3), from the manifests and from what the sources name.

use super::{Finding, House, package_of};
use crate::manifest::{self, Dependency, Table};

/// Each package of the house and the packages it may name. Dev-dependencies may also be `crash`.
const WALLS: [(&str, &[&str]); 21] = [
    ("medium", &[]),
    ("crash", &["medium"]),
    ("pool", &["medium"]),
    ("owner", &["medium", "pool"]),
    ("object", &["medium", "pool", "owner"]),
    ("wal", &["medium", "pool"]),
    ("sqlite-log", &["medium", "pool", "owner"]),
    ("block", &["medium", "pool", "owner"]),
    ("fs", &["medium", "pool", "owner"]),
    ("guest", &["medium", "pool", "owner"]),
    ("cache", &["medium", "pool", "owner", "object"]),
    ("sim", &["medium"]),
    ("serve", &["medium", "block", "fs", "cache", "guest", "wal"]),
    ("preload", LIBRARIES),
    ("bindings", LIBRARIES),
    ("bench", &["medium", "pool", "object", "wal", "block", "fs", "cache", "guest", "sim", "serve"]),
    (
        "cli",
        &["medium", "pool", "owner", "object", "sqlite-log", "block", "fs", "cache", "guest", "sim", "serve", "bench"],
    ),
    (
        "fuzz",
        &[
            "medium",
            "pool",
            "owner",
            "object",
            "sqlite-log",
            "wal",
            "block",
            "fs",
            "cache",
            "guest",
            "sim",
            "serve",
            "fuzz",
        ],
    ),
    ("tests", &["medium", "pool", "owner", "object", "block", "crash"]),
    ("xtask", &[]),
    ("examples", LIBRARIES),
];

const LIBRARIES: &[&str] = &["medium", "pool", "owner", "object", "sqlite-log", "block", "fs", "cache", "guest"];

/// Runtimes that nothing below `serve` may stand on.
const ASYNC_RUNTIMES: [&str; 9] =
    ["tokio", "async-std", "smol", "futures", "async-executor", "glommio", "monoio", "compio", "tokio-uring"];

/// Crates of the edge: front ends' protocols and command lines.
const EDGE_CRATES: [&str; 6] = ["fuser", "clap", "vhost", "vhost-user-backend", "libublk", "virtio-queue"];

pub(super) fn check(house: &House<'_>, findings: &mut Vec<Finding>) {
    for file in house.tree.ending("Cargo.toml") {
        let Some(package) = package_of(&file.path) else { continue };
        for dependency in manifest::dependencies(&file.text) {
            let what = told_by_manifest(package, &dependency);
            findings.extend(what.map(|what| Finding::new(&file.path, dependency.line, what)));
        }
        if file.path != "fuzz/Cargo.toml" && !manifest::shares_lints(&file.text) {
            findings.push(Finding::new(
                &file.path,
                1,
                "the house lints do not hold here: add `[lints]` with `workspace = true`",
            ));
        }
    }
    for source in &house.sources {
        let Some(package) = package_of(source.path) else { continue };
        for (at, token) in source.tokens.iter().enumerate() {
            let Some(named) = token.text.strip_prefix("ferrite_").map(|named| named.replace('_', "-")) else {
                continue;
            };
            if !is_package(&named) {
                continue;
            }
            let what = told(package, &named, source.in_test[at]);
            findings.extend(what.map(|what| Finding::new(source.path, token.line, what)));
        }
    }
}

fn is_package(name: &str) -> bool {
    WALLS.iter().any(|(known, _)| *known == name)
}

fn told_by_manifest(package: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if let Some(named) = name.strip_prefix("ferrite-") {
        return told(package, named, dependency.table == Table::Dev);
    }
    if super::is_below_serve(package) && (ASYNC_RUNTIMES.contains(&name) || EDGE_CRATES.contains(&name)) {
        return Some(format!(
            "`{package}` lies below `serve` and may not stand on `{name}`: move that to `serve` or `cli`"
        ));
    }
    None
}

/// What to say where `package` names `named`, if that is not allowed.
fn told(package: &str, named: &str, in_test: bool) -> Option<String> {
    let Some((_, allowed)) = WALLS.iter().find(|(known, _)| *known == package) else {
        return Some(format!("package `{package}` has no row in the walls: add it to xtask/src/tidy/walls.rs"));
    };
    if named == package || allowed.contains(&named) || (named == "crash" && in_test) {
        return None;
    }
    if named == "crash" {
        return Some("`crash` is for tests alone: name it under [dev-dependencies] and in test code".into());
    }
    let may = if allowed.is_empty() { "nothing of the house".into() } else { allowed.join(", ") };
    Some(format!(
        "`{package}` may not name `{named}` (it may name {may}): let them meet as Disk or Memory, or in `cli`"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{assert_clean, assert_found};
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn manifest(path: &'static str, rest: &str) -> (String, String) {
        (format!("{path}/Cargo.toml"), format!("{LINTS}{rest}"))
    }

    #[track_caller]
    fn assert_refused(path: &'static str, rest: &str) {
        let (path, text) = manifest(path, rest);
        assert_found(check, &[(&path, &text)], &format!("{path}:4"));
    }

    #[test]
    fn a_manifest_that_crosses_a_wall_is_found() {
        assert_refused("crates/medium", "[dependencies]\nferrite-pool.workspace = true\n");
        assert_refused("crates/block", "[dependencies]\nferrite-fs = { path = \"../fs\" }\n");
        assert_refused("crates/pool", "[dependencies]\nferrite-crash.workspace = true\n");
        assert_refused("crates/pool", "[dev-dependencies]\nferrite-block.workspace = true\n");
        assert_refused("crates/new", "[dependencies]\nferrite-medium.workspace = true\n");
        assert_refused("crates/pool", "[dependencies]\ntokio = \"1\"\n");
        assert_refused("crates/fs", "[dependencies]\nfuser.workspace = true\n");
    }

    #[test]
    fn manifests_within_the_walls_are_not() {
        let rest =
            "[dependencies]\nferrite-medium.workspace = true\n[dev-dependencies]\nferrite-crash.workspace = true\n";
        for path in ["crates/pool", "crates/block", "crates/serve"] {
            let (path, text) = manifest(path, rest);
            assert_clean(check, &[(&path, &text)]);
        }
        let (path, text) = manifest("crates/serve", "[dependencies]\nfuser.workspace = true\ntokio = \"1\"\n");
        assert_clean(check, &[(&path, &text)]);
    }

    #[test]
    fn a_package_without_the_house_lints_is_found() {
        assert_found(check, &[("crates/pool/Cargo.toml", "[package]\n")], "crates/pool/Cargo.toml:1");
    }

    #[test]
    fn a_source_that_crosses_a_wall_is_found() {
        let refused = [
            ("crates/block/src/lib.rs", "\nuse ferrite_cache::Cache;"),
            ("crates/pool/src/lib.rs", "\nuse ferrite_crash::Lying;"),
            ("crates/serve/src/lib.rs", "\nfn f(x: &ferrite_pool::Pool) {}"),
        ];
        for (path, text) in refused {
            assert_found(check, &[(path, text)], &format!("{path}:2"));
        }
    }

    #[test]
    fn tests_may_name_crash_and_words_in_comments_do_not_count() {
        let text =
            "//! See ferrite_block.\nuse ferrite_disk::Disk;\n#[cfg(test)]\nmod tests { use ferrite_crash::Lying; }\n";
        assert_clean(check, &[("crates/pool/src/lib.rs", text)]);
        assert_clean(check, &[("crates/pool/tests/crash.rs", "use ferrite_crash::Lying; use ferrite_pool::Pool;")]);
    }
}
