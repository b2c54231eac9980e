use super::*;

#[test]
fn blocks_are_drawn_where_the_locale_says_utf_8() {
    let has = |set: &[(&str, &str)]| {
        has_blocks(|name| set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).into()))
    };
    assert!(has(&[("LANG", "en_GB.UTF-8")]) && has(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
    assert!(!has(&[]) && !has(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]) && !has(&[("LANG", "de_DE@euro")]));
}
