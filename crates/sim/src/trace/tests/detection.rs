//! The form that is told is the one whose reader accepts the trace, whatever is in it.

use std::path::Path;

use proptest::prelude::*;

use super::super::{Form, Reading};
use super::{read_as, reading};
use crate::{Input, proof};

/// Lines of one form, in every way that programs write them.
fn lines(form: Form) -> BoxedStrategy<String> {
    let line = match form {
        Form::Lackey => "(I  | L | S | M )[0-9a-f]{1,12},[1-9]|==[0-9]{1,5}== [a-z ]{0,9}",
        Form::Din => "[0-4rwiRWI] (0x|0X)?[0-9a-fA-F]{1,12}( [0-9a-z]{1,4})?",
        Form::Ramulator => "[0-9]{1,3} ((0x|0X)[0-9a-fA-F]{1,12}|[0-9]{1,9})( (0x[0-9a-f]{1,12}|[0-9]{1,9}))?",
        _ => {
            "[0-9]{1,3} {1,9}[0-9]{1,3}: {1,9}(W0.T)?[0-9]{1,3} (read|write|ifetch) {1,9}[1-9] byte\\(s\\) @ 0x[0-9a-f]{1,12}\
             ( by PC 0x[0-9a-f]{1,9}| [0-9a-f]{8} load)|[0-9]{1,3}: T[0-9]{1,3} (read|write) [1-9] byte\\(s\\) @ 0x[0-9a-f]{1,12}|\
             [0-9]{1,3}: T[0-9]{1,3} <marker: version 4>|[0-9]{1,3} [0-9]{1,3}: W0.T3 [0-9a-f]{8}"
        }
    };
    prop::collection::vec(line, 1..12).prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect()).boxed()
}

const TEXTS: [Form; 4] = [Form::Lackey, Form::Din, Form::Drmemtrace, Form::Ramulator];

proptest! {
    #![proptest_config(proof::cases(512))]

    #[test]
    fn a_form_is_told_by_its_reader_alone(text in prop::sample::select(TEXTS.to_vec()).prop_flat_map(lines)) {
        let finds = |form: &Form| {
            let read = read_as(text.as_str(), Reading { form: Some(*form), ..reading() });
            read.is_ok_and(|all| !all.is_empty())
        };
        let accepting: Vec<Form> = TEXTS.into_iter().filter(finds).collect();
        let mut input = Input::over(Path::new("it"), std::io::Cursor::new(text.clone().into_bytes())).unwrap();
        match (Form::of(&mut input, reading()), &accepting[..]) {
            (Ok(form), [one]) => prop_assert_eq!(form, *one),
            (Ok(_), []) => {}
            (Ok(form), _) => prop_assert!(false, "told as {form:?}, and {accepting:?} read {text}"),
            (Err(why), [_]) => prop_assert!(false, "{why}: but {accepting:?} reads {text}"),
            (Err(why), _) => {
                let is_named = |form: &Form| why.to_string().contains(form.name());
                prop_assert!(accepting.iter().all(is_named) && why.to_string().contains("--format") || accepting.is_empty());
            }
        }
    }
}
