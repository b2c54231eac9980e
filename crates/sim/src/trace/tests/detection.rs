//! The detected format is the one whose reader accepts the trace, for any content.

use std::path::Path;

use proptest::prelude::*;

use super::super::{AccessFormat, TraceOptions};
use super::{LACKEY, read, read_as, reading, words};
use crate::{TraceInput, support};

/// Returns lines of one format, in every way that programs write them.
fn lines(form: AccessFormat) -> BoxedStrategy<String> {
    let line = match form {
        AccessFormat::Lackey => "(I  | L | S | M )[0-9a-f]{1,12},[1-9]|==[0-9]{1,5}== [a-z ]{0,9}",
        AccessFormat::Din => "[0-4rwiRWI] (0x|0X)?[0-9a-fA-F]{1,12}( [0-9a-z]{1,4})?",
        AccessFormat::Ramulator => "[0-9]{1,3} ((0x|0X)[0-9a-fA-F]{1,12}|[0-9]{1,9})( (0x[0-9a-f]{1,12}|[0-9]{1,9}))?",
        _ => {
            "[0-9]{1,3} {1,9}[0-9]{1,3}: {1,9}(W0.T)?[0-9]{1,3} (read|write|ifetch) {1,9}[1-9] byte\\(s\\) @ 0x[0-9a-f]{1,12}\
             ( by PC 0x[0-9a-f]{1,9}| [0-9a-f]{8} load)|[0-9]{1,3}: T[0-9]{1,3} (read|write) [1-9] byte\\(s\\) @ 0x[0-9a-f]{1,12}|\
             [0-9]{1,3}: T[0-9]{1,3} <marker: version 4>|[0-9]{1,3} [0-9]{1,3}: W0.T3 [0-9a-f]{8}"
        }
    };
    prop::collection::vec(line, 1..12).prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect()).boxed()
}

const TEXTS: [AccessFormat; 4] =
    [AccessFormat::Lackey, AccessFormat::Din, AccessFormat::Drmemtrace, AccessFormat::Ramulator];

proptest! {
    #![proptest_config(support::cases(512))]

    #[test]
    fn a_form_is_told_by_its_reader_alone(text in prop::sample::select(TEXTS.to_vec()).prop_flat_map(lines), is_ended in any::<bool>()) {
        let text = if is_ended { text.as_str() } else { text.trim_end() };
        let finds = |form: &AccessFormat| {
            let read = read_as(text, TraceOptions { form: Some(*form), ..reading() });
            read.is_ok_and(|all| !all.is_empty())
        };
        let accepting: Vec<AccessFormat> = TEXTS.into_iter().filter(finds).collect();
        let mut input = TraceInput::over(Path::new("it"), std::io::Cursor::new(text.as_bytes().to_vec())).unwrap();
        match (AccessFormat::of(&mut input, reading()), &accepting[..]) {
            (Ok(form), [one]) => prop_assert_eq!(form, *one),
            (Ok(_), []) => {}
            (Ok(form), _) => prop_assert!(false, "told as {form:?}, and {accepting:?} read {text}"),
            (Err(why), [_]) => prop_assert!(false, "{why}: but {accepting:?} reads {text}"),
            (Err(why), _) => {
                let is_named = |form: &AccessFormat| why.to_string().contains(form.name());
                prop_assert!(accepting.iter().all(is_named) && why.to_string().contains("--format") || accepting.is_empty());
            }
        }
    }
}

/// A trace that two readers accept has neither format until the user names one: a wrong guess would give wrong figures.
#[test]
fn a_trace_that_has_two_forms_is_told_as_such() {
    let ambiguous = "3 0x13C6040\n1 0x13E1700 0x13C6040\n4 0x13C7040\n0 0x13C8040\n";
    for text in [ambiguous, "0 1000\n1 2000\n", "3 20734016\n1 20846400 20734080\n", "1 1000 8\n"] {
        let message = read(text).expect_err("it has two forms").to_string();
        assert_eq!(message, "it:1: it can be read as din and as ramulator: name one with --format");
        for form in [AccessFormat::Din, AccessFormat::Ramulator] {
            assert!(
                !read_as(text, TraceOptions { form: Some(form), ..reading() }).expect("named").is_empty(),
                "{text}"
            );
        }
    }
    let records = words(&[8, 0, 8, 8, 8, 8, 8, 8]);
    let message = read(records.clone()).expect_err("it has two forms").to_string();
    assert_eq!(message, "it:1: not a trace: it can be read as champsim and as compact: name one with --format");
    assert!(read_as(records, TraceOptions { form: Some(AccessFormat::Compact), ..reading() }).is_ok());
}

/// The program under Valgrind may write anything.
#[test]
fn text_of_any_characters_is_told_by_its_reader() {
    let text = format!("==12== \u{e4}\u{4e00} {}\n{LACKEY}", char::from(7));
    assert_eq!(read(text).expect("lackey"), read(LACKEY).expect("lackey"));
}
