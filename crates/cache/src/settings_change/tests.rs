use super::*;

/// A change of one setting leaves the others.
#[test]
fn a_change_names_some_settings_and_keeps_the_others() {
    let before = CacheSettings { bypass_bytes: 0, destage_rate: Some(9), ..CacheSettings::default() };
    let change = SettingsChange { mode: Some(CacheMode::WriteBack), ..SettingsChange::default() };
    let after = change.apply(before, 2).expect("possible");
    assert_eq!(after, CacheSettings { mode: CacheMode::WriteBack, ..before });
    let change = SettingsChange { destage_rate: Some(RateChoice::Auto), ..SettingsChange::default() };
    assert_eq!(change.apply(after, 2).expect("possible").destage_rate, None);
    let change = SettingsChange { destage_rate: Some(RateChoice::Pages(0)), ..SettingsChange::default() };
    assert_eq!(change.apply(after, 2).expect("possible").destage_rate, Some(0));
}

#[test]
fn settings_that_lose_data_or_cannot_work_are_refused_with_what_to_do() {
    let none = SettingsChange::default();
    let rows = [
        (SettingsChange { mode: Some(CacheMode::WriteBack), ..none }, 1, "the copies `one`"),
        (SettingsChange { copies: Some(CopyRule::All), ..none }, 1, "need two SSDs"),
        (SettingsChange { dirty_max_permille: Some(0), ..none }, 2, "0.1%"),
        (SettingsChange { dirty_max_permille: Some(801), ..none }, 2, "80%"),
        (SettingsChange { ssd_timeout_ns: Some(1), ..none }, 2, "100 ms"),
    ];
    for (change, ssds, why) in rows {
        let error = change.apply(CacheSettings::default(), ssds).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    let said = SettingsChange { mode: Some(CacheMode::WriteBack), copies: Some(CopyRule::One), ..none };
    said.apply(CacheSettings::default(), 1).expect("the user chose it");
}
