use super::*;

#[test]
fn the_first_failure_is_the_one_that_is_told() {
    let second = || Err(Failure::Failed("second".into()));
    let told = |done: Outcome<u8>, cleared| and_then_cleared(done, cleared).map_err(|why| why.text().to_owned());
    assert_eq!(told(Err("first".into()), second()), Err("first".into()));
    assert_eq!(told(Err("first".into()), Ok(())), Err("first".into()));
    assert_eq!(told(Ok(7), second()), Err("second".into()));
    assert_eq!(told(Ok(7), Ok(())), Ok(7));
}
