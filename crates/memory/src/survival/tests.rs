use super::*;

fn survival(kernel_crash: Survives, power_loss: Survives) -> Survival {
    Survival {
        process_crash: Claim::new(Survives::Yes, "the kernel keeps its pages"),
        kernel_crash: Claim::new(kernel_crash, "it lies in x"),
        power_loss: Claim::new(power_loss, "it lies in x"),
    }
}

#[test]
fn each_answer_is_said_once_with_its_reason() {
    use Survives::{No, NotKnown, Yes};
    let failure = |kernel, power| survival(kernel, power).describe(false);
    assert_eq!(failure(Yes, Yes), "survives a process crash, a kernel crash and power loss: it lies in x");
    assert_eq!(
        failure(No, No),
        "survives a process crash; does not survive a kernel crash or power loss: it lies in x"
    );
    assert_eq!(
        failure(NotKnown, No),
        "survives a process crash; is not known to survive a kernel crash: it lies in x; does not survive power loss: it \
         lies in x"
    );
    let none = Survival::none("it is memory of this process");
    assert!(none.describe(false).ends_with("power loss: it is memory of this process"));
    let flushed = survival(Yes, Yes).describe(true);
    assert!(flushed.starts_with("what was flushed survives a process crash, "), "{flushed}");
}

#[test]
fn trust_turns_what_was_found_into_a_claim_that_says_so() {
    use Survives::{No, NotKnown, Yes};
    let trusted = survival(NotKnown, No).trusted();
    assert_eq!((trusted.kernel_crash.survives, trusted.power_loss.survives), (Yes, Yes));
    assert_eq!(trusted.kernel_crash.why, "trusted by its user, else not known: it lies in x");
    assert_eq!(trusted.power_loss.why, "trusted by its user, else no: it lies in x");
    assert_eq!(survival(Yes, Yes).trusted(), survival(Yes, Yes), "what is known needs no trust");
    assert_eq!(Survival::none("gone").trusted().process_crash.survives, No, "no user keeps memory of a process");
}

#[test]
fn another_medium_has_another_fingerprint() {
    let (one, other) = (survival(Survives::No, Survives::No), survival(Survives::NotKnown, Survives::No));
    assert_eq!(one.fingerprint(), one.clone().fingerprint());
    assert_ne!(one.fingerprint(), other.fingerprint());
}
