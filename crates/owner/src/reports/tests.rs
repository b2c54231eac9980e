use super::*;

#[test]
fn only_what_is_not_known_is_advised_on() {
    let report = |state| {
        let answer = SurvivalAnswer { state, why: String::new() };
        let (process_crash, kernel_crash) = (answer.clone(), answer.clone());
        SurvivalReport { process_crash, kernel_crash, power_loss: answer, trusted: false, when_flushed: false }
    };
    assert!(report(SurvivalState::NotKnown).advice().is_some_and(|text| text.contains("--trust-medium")));
    assert_eq!((report(SurvivalState::No).advice(), report(SurvivalState::Yes).advice()), (None, None));
}
