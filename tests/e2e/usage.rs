//! How the command line answers right and wrong words.

use crate::programs::ferrite;

#[test]
fn help_is_no_error_and_wrong_words_are_wrong_usage() {
    let status = |word: &str| ferrite().arg(word).output().expect("ferrite starts").status.code();
    assert_eq!(status("--help"), Some(0));
    assert_eq!(status("nonsense"), Some(2), "wrong usage has its own exit status");
}
