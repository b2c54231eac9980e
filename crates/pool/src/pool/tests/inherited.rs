//! What a killed process left in the processor's caches, or in the host's.

use ferrite_crash::{Model, explore};

use super::*;
use crate::tests::support::{new_pool, open, options};

/// Recovery builds on what it sees, so no later crash may take back what it saw: a word of a killed process could
/// else return to what it named before, which is another's by then.
#[test]
fn no_crash_after_recovery_takes_back_what_it_saw() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let pool = open(&memory);
        let tag = create(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("made");
        let at = tag.extents[0].page * PAGE;
        memory.store_word(at, 41);
        drop(pool);

        let pool = open(&memory);
        memory.forget_trace();
        create(&pool, "b", &[need(Zone::Normal, PAGE)]).expect("made");
        let report = explore(&memory, &options(64, 16), |crash| match crash.load_word(at) {
            41 => Ok(()),
            other => Err(format!("the word is {other} again")),
        });
        report.assert_clean();
    }
}
