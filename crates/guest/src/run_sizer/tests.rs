use super::*;

#[test]
fn runs_of_a_stream_double_to_128_kib_and_others_have_16_kib() {
    let mut runs = RunSizer::default();
    assert_eq!([0, 4, 12, 28, 60].map(|page| runs.pages(page)), [4, 8, 16, 32, 32]);
    assert_eq!(runs.pages(7), 4);
}
