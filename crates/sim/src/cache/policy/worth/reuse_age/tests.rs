use super::*;

/// From any step on, an age advances with the steps: exactly while ages are one step wide, and later never by more than
/// one age behind or ahead.
#[test]
fn ages_go_on_about_as_steps_do() {
    for from in 0..128_u16 {
        let mut age = 0;
        for steps in 1..400_u16 {
            age += u16::from(age < advancing_below((from + steps) * 4, 4));
            let exact = after(steps.into());
            assert!(steps > 8 || age == exact, "{from} {steps}");
            assert!(age.abs_diff(exact) <= 1, "{from} {steps}: {age} for {exact}");
        }
        assert_eq!(age, OLDEST);
    }
}
