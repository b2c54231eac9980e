use super::*;

/// Returns the words of `text` that ship.
fn shipped(text: &str) -> String {
    let source = RustSource::new("x.rs", text, false);
    let kept = source.code.char_indices().filter(|(at, _)| !source.is_test_at(*at)).map(|(_, c)| c);
    kept.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn comments_and_literals_are_blank() {
    assert_eq!(shipped("a // unsafe\n/* x fn */ b"), "a b");
    let literals = r####"x("a\"}", r#"raw " }"#, b"by\\", br##"q"# "##, c"c", '\'', '}', '\u{1}')"####;
    assert!(!shipped(literals).contains(['}', 'q']), "{}", shipped(literals));
    assert_eq!(shipped("fn f<'a>(x: &'a str) { 'out: loop {} }"), "fn f<'a>(x: &'a str) { 'out: loop {} }");
}

#[test]
fn test_code_is_told_from_what_ships() {
    assert_eq!(shipped("a; #[cfg(test)] mod tests { fn x() {} } b"), "a; b");
    assert_eq!(shipped("#[test] #[ignore] fn t() -> [u8; 2] { } c"), "c");
    assert_eq!(shipped("#[cfg(all(test, unix))] use x::y; d"), "d");
    assert_eq!(shipped("#[cfg(all(unix, test))] use x::y; d"), "d");
    assert!(shipped("#[cfg(not(test))] fn real() {}").contains("real"));
    assert_eq!(shipped("#![cfg(test)] fn all() {}"), "");
}

#[test]
fn a_module_declared_for_tests_is_test_code_with_all_below_it() {
    let tree = ProjectTree::of(&[
        ("crates/a/src/lib.rs", "#[cfg(test)] mod model; mod real;"),
        ("crates/a/src/model.rs", "fn x() {}"),
        ("crates/a/src/model/deep.rs", "fn x() {}"),
        ("crates/a/src/modeller.rs", "fn x() {}"),
        ("crates/a/src/real.rs", "fn y() {} #[cfg(test)] mod tests;"),
        ("crates/a/src/real/tests.rs", "fn x() {}"),
    ]);
    let sources = RustSource::all(&tree);
    let tests: Vec<&str> = sources.iter().filter(|source| source.is_test_at(0)).map(|source| source.path).collect();
    let expected = ["crates/a/src/model.rs", "crates/a/src/model/deep.rs", "crates/a/src/real/tests.rs"];
    assert_eq!(tests[1..], expected, "and the declaration in lib.rs");
}

#[test]
fn functions_know_their_length_module_and_whether_they_are_tests() {
    let text = "trait T { fn no_body(x: [u8; 2]); }\nmod m {\n#[test]\nfn t() {\n  \"}\";\n}\n}\nfn two() where A: B<{ 1 }> {}";
    let functions = RustSource::new("x.rs", text, false).functions;
    assert_eq!(functions[0].name, "t");
    assert_eq!((functions[0].line, functions[0].lines, functions[0].is_test), (4, 3, true));
    assert_eq!(functions[0].modules, ["m"]);
    assert_eq!((functions[1].name.as_str(), functions[1].is_test), ("two", false));
}

#[test]
fn test_files_are_known_by_their_paths() {
    assert!(["a/tests/b.rs", "a/tests.rs", "a/x_tests.rs", "tests/e2e/main.rs"].into_iter().all(is_test_path));
    assert!(!["a/testdata/b.rs", "a/src/contest.rs"].into_iter().any(is_test_path));
}
