use std::cell::RefCell;

use super::*;

#[test]
fn a_list_goes_on_without_what_is_removed_meanwhile() {
    let there = RefCell::new(vec!["a".to_string(), "b".into(), "c".into()]);
    let names = || there.borrow().clone();
    let report = |name: &str| match name {
        "b" => Err(Failure::not_found(format!("there is no {name}"))),
        name => Ok(name.to_string()),
    };
    assert!(report_each(names, report).is_err(), "a tag that exists and cannot be described is an error");
    let removing = |name: &str| {
        there.borrow_mut().retain(|it| it != "b");
        report(name)
    };
    assert_eq!(report_each(names, removing), Ok(vec!["a".into(), "c".into()]));
}
