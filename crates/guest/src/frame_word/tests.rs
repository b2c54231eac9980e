use super::*;

#[test]
fn a_word_says_what_was_stored_and_no_damaged_word_says_anything() {
    for content in [FrameContent::Free, FrameContent::Truth(0), FrameContent::Copy(PAGES_MAX - 1)] {
        assert_eq!(FrameContent::decode(7, content.encode(7)), Some(content));
    }
    let word = FrameContent::Truth(5).encode(7);
    assert_eq!(FrameContent::decode(8, word), None, "another guest's word");
    assert_eq!(FrameContent::decode(7, word ^ 1), None, "a flipped bit");
    assert_eq!(FrameContent::decode(7, seal(7, 3 << STATE_SHIFT)), None, "an unknown state");
    assert_eq!(FrameContent::decode(7, seal(7, 0)), None, "a free frame has zeros");
}
