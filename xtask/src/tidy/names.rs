//! Words that say nothing are no names: for files, types, functions, modules, constants.

use super::{Finding, House, words};
use crate::lexer::Kind;
use crate::source::Source;

const BANNED: [&str; 8] = ["sync", "manager", "util", "utils", "helper", "helpers", "info", "data2"];

/// The keywords after which a name is given.
const GIVERS: [&str; 10] = ["fn", "struct", "enum", "union", "trait", "mod", "type", "const", "static", "macro_rules"];

pub(super) fn check(house: &House<'_>, findings: &mut Vec<Finding>) {
    for file in &house.tree.files {
        for word in banned_in(&file.path) {
            tell(house, Place { path: &file.path, line: 1 }, &word, findings);
        }
    }
    for source in &house.sources {
        // The name of a test is a sentence, which may speak of anything.
        let tests: Vec<usize> = source.functions().iter().filter(|it| it.is_test).map(|test| test.line).collect();
        for at in 0..source.tokens.len() {
            let Some(given) = name_given(source, at) else { continue };
            let token = &source.tokens[given];
            if tests.contains(&token.line) {
                continue;
            }
            for word in banned_in(token.text) {
                tell(house, Place { path: source.path, line: token.line }, &word, findings);
            }
        }
    }
}

struct Place<'a> {
    path: &'a str,
    line: usize,
}

fn banned_in(name: &str) -> Vec<String> {
    words(name).into_iter().filter(|word| BANNED.contains(&word.as_str())).collect()
}

/// Where the name stands that the token at `at` gives, if it gives one.
fn name_given(source: &Source<'_>, at: usize) -> Option<usize> {
    let giver = &source.tokens[at];
    if giver.kind != Kind::Ident || !GIVERS.contains(&giver.text) {
        return None;
    }
    let skipped = usize::from(source.reads(at + 1, &["!"]) || source.reads(at + 1, &["mut"]));
    let name = source.tokens.get(at + 1 + skipped)?;
    (name.kind == Kind::Ident).then_some(at + 1 + skipped)
}

fn tell(house: &House<'_>, place: Place<'_>, word: &str, findings: &mut Vec<Finding>) {
    let allowed = |subject: &str| place.path.starts_with(subject);
    if house.ratchet.of_kind("name").any(|entry| entry.value == word && allowed(&entry.subject)) {
        return;
    }
    let what = format!(
        "`{word}` is not a name: say what it does or holds (for a word that a protocol gives, add `name {} {word} REASON` to \
         xtask/ratchet.txt)",
        place.path
    );
    findings.push(Finding::new(place.path, place.line, what));
}

#[cfg(test)]
mod tests {
    use super::super::{assert_clean, assert_found};
    use super::*;

    #[test]
    fn banned_names_are_found_word_by_word() {
        for text in [
            "\nstruct LockManager;",
            "\nfn sync_all() {}",
            "\nmod utils {}",
            "\nstatic mut DATA2: u8;",
            "\nconst INFO: u8;",
        ] {
            assert_found(check, &[("crates/a/src/lib.rs", text)], "crates/a/src/lib.rs:2");
        }
        assert_found(check, &[("crates/a/src/helpers.rs", "")], "crates/a/src/helpers.rs:1");
    }

    #[test]
    fn longer_words_uses_and_reasoned_names_pass() {
        let text = "use std::sync::Mutex; fn fsync() {} fn synchronous() {} enum E { Info } f(x.sync_all());";
        assert_clean(check, &[("crates/a/src/lib.rs", text)]);
        assert_clean(check, &[("crates/a/src/lib.rs", "#[test]\nfn info_is_answered() {}")]);
        let ratchet = ("xtask/ratchet.txt", "name crates/serve/src/nbd/ info the protocol's own word\n");
        assert_clean(check, &[("crates/serve/src/nbd/options.rs", "const NBD_OPT_INFO: u32 = 6;"), ratchet]);
    }
}
