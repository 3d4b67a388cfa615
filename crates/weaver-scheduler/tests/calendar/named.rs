//! Well-known cases: DST gaps and folds, unusual zones, seconds.

use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{Fold, Gap, Schedule, ScheduleSpec, Zone};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The fires in the schedule's zone, each with its notes.
fn shown(spec: ScheduleSpec, from: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::new(spec).unwrap();
    let zone = schedule.zone().unwrap().clone();
    let fires = schedule.next(at(from), count);
    fires
        .iter()
        .map(|fire| {
            let notes: Vec<String> = fire.notes.iter().map(ToString::to_string).collect();
            format!("{} {}", zone.show(fire.at), notes.join("; ")).trim_end().to_owned()
        })
        .collect()
}

fn berlin(expression: &str) -> ScheduleSpec {
    ScheduleSpec::new(expression).tz("Europe/Berlin")
}

#[test]
fn a_time_in_a_dst_gap_moves_to_the_end_of_the_gap_or_is_skipped() {
    let from = "2026-03-28T12:00:00Z";
    assert_eq!(
        shown(berlin("30 2 * * *"), from, 2),
        [
            "2026-03-29 03:00:00 +02:00 02:30 does not exist on 2026-03-29: moved to the end of the gap",
            "2026-03-30 02:30:00 +02:00",
        ]
    );
    assert_eq!(
        shown(berlin("daily at 02:30").gap(Gap::Skip), from, 1),
        ["2026-03-30 02:30:00 +02:00 02:30 does not exist on 2026-03-29: skipped before this one"]
    );
}

#[test]
fn several_times_in_one_gap_fire_once_at_its_end() {
    let fires = shown(berlin("0,15,30 2,3 * * *"), "2026-03-28T12:00:00Z", 3);
    let note = " 02:00 does not exist on 2026-03-29: moved to the end of the gap";
    assert_eq!(
        fires,
        [
            format!("2026-03-29 03:00:00 +02:00{note}"),
            "2026-03-29 03:15:00 +02:00".into(),
            "2026-03-29 03:30:00 +02:00".into()
        ]
    );
}

#[test]
fn a_time_in_a_dst_fold_fires_first_last_or_both_times() {
    let from = "2026-10-24T12:00:00Z";
    let [first, second] =
        ["happens twice on 2026-10-25: this is the first", "happens twice on 2026-10-25: this is the second"];
    assert_eq!(
        shown(berlin("30 2 * * *"), from, 2),
        [format!("2026-10-25 02:30:00 +02:00 02:30 {first}"), "2026-10-26 02:30:00 +01:00".into()]
    );
    assert_eq!(
        shown(berlin("30 2 * * *").fold(Fold::Last), from, 2),
        [format!("2026-10-25 02:30:00 +01:00 02:30 {second}"), "2026-10-26 02:30:00 +01:00".into()]
    );
    assert_eq!(
        shown(berlin("30 2 * * *").fold(Fold::Both), from, 2),
        [
            format!("2026-10-25 02:30:00 +02:00 02:30 {first}"),
            format!("2026-10-25 02:30:00 +01:00 02:30 {second}")
        ]
    );
}

#[test]
fn an_interval_keeps_its_pace_through_both_changes_and_invents_nothing() {
    for expression in ["0 * * * *", "*/30 * * * *", "0 */1 * * *", "0 0-23 * * *"] {
        let step = if expression.starts_with('*') { 1800 } else { 3600 };
        for from in ["2026-03-28T23:00:00Z", "2026-10-24T22:00:00Z"] {
            let schedule = Schedule::new(berlin(expression)).unwrap();
            let fires = schedule.next(at(from), 10);
            let gaps: Vec<i64> = fires
                .windows(2)
                .map(|pair| (pair[1].at.as_micros() - pair[0].at.as_micros()) / 1_000_000)
                .collect();
            assert_eq!(gaps, [step; 9], "{expression} from {from}");
        }
    }
}

#[test]
fn half_an_hour_of_daylight_saving_on_lord_howe() {
    // 02:00 → 02:30 on 2026-10-04, and 02:00 → 01:30 on 2026-04-05.
    let howe = |expression: &str| ScheduleSpec::new(expression).tz("Australia/Lord_Howe");
    let note = "02:15 does not exist on 2026-10-04: moved to the end of the gap";
    assert_eq!(
        shown(howe("15 2 * * *"), "2026-10-03T00:00:00Z", 1),
        [format!("2026-10-04 02:30:00 +11:00 {note}")]
    );
    let hours: Vec<String> = shown(howe("0 * * * *"), "2026-10-03T14:00:00Z", 3);
    let skipped = "02:00 does not exist on 2026-10-04: skipped before this one";
    assert_eq!(
        hours,
        [
            "2026-10-04 01:00:00 +10:30".to_owned(),
            format!("2026-10-04 03:00:00 +11:00 {skipped}"),
            "2026-10-04 04:00:00 +11:00".to_owned()
        ]
    );
    let fires = Schedule::new(howe("*/30 * * * *")).unwrap().next(at("2026-04-04T13:59:59Z"), 4);
    let instants: Vec<String> = fires.iter().map(|fire| fire.at.to_string()[11..16].to_owned()).collect();
    assert_eq!(instants, ["14:00", "14:30", "15:00", "15:30"]);
}

#[test]
fn a_day_that_samoa_never_had_fires_at_its_end() {
    let fires = shown(ScheduleSpec::new("30 9 * * *").tz("Pacific/Apia"), "2011-12-29T00:00:00Z", 3);
    assert_eq!(
        fires,
        [
            "2011-12-29 09:30:00 -10:00",
            "2011-12-31 00:00:00 +14:00 09:30 does not exist on 2011-12-30: moved to the end of the gap",
            "2011-12-31 09:30:00 +14:00",
        ]
    );
    let skip = ScheduleSpec::new("30 9 * * *").tz("Pacific/Kwajalein").gap(Gap::Skip);
    let days: Vec<String> =
        shown(skip, "1993-08-20T00:00:00Z", 2).iter().map(|fire| fire[..10].to_owned()).collect();
    assert_eq!(days, ["1993-08-20", "1993-08-22"]);
}

#[test]
fn elapsed_time_is_counted_from_1970_and_knows_no_zone() {
    let schedule = Schedule::new(ScheduleSpec::new("every 1h30m")).unwrap();
    let fires = schedule.next(at("2026-03-29T00:00:00Z"), 3);
    let instants: Vec<String> = fires.iter().map(|fire| fire.at.to_string()[11..19].to_owned()).collect();
    assert_eq!(instants, ["01:30:00", "03:00:00", "04:30:00"]);
    assert_eq!(schedule.next_after(at("2026-03-29T01:30:00Z")).unwrap().at, at("2026-03-29T03:00:00Z"));
}

#[test]
fn seconds_are_a_sixth_field_in_front() {
    let fires = shown(berlin("*/20 30 9 * * *"), "2026-06-01T00:00:00Z", 4);
    assert_eq!(fires[2], "2026-06-01 09:30:40 +02:00");
    assert_eq!(fires[3], "2026-06-02 09:30:00 +02:00");
}

#[test]
fn once_fires_once_in_its_zone_or_at_its_instant() {
    let fires = shown(berlin("once at 2026-03-29T02:30"), "2026-01-01T00:00:00Z", 5);
    assert_eq!(fires.len(), 1);
    assert!(fires[0].starts_with("2026-03-29 03:00:00 +02:00"), "{fires:?}");
    let instant = Schedule::new(ScheduleSpec::new("once at 2026-03-29T02:30:00Z")).unwrap();
    assert_eq!(instant.next(Timestamp::MIN, 5).len(), 1);
    assert_eq!(instant.next_after(at("2026-03-29T02:30:00Z")), None);
}

#[test]
fn zones_come_from_the_program_and_not_from_the_machine() {
    // Only names of the bundled database are known, not paths of the machine.
    assert!(Zone::named("/etc/localtime").is_err());
    assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
}

#[test]
fn a_schedule_is_data() {
    let text = r#"{"schedule":"30 2 * * *","tz":"Europe/Berlin","gap":"skip","overlap":"both"}"#;
    let spec: ScheduleSpec = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    assert!(serde_json::from_str::<ScheduleSpec>(r#"{"schedule":"every 5m","zone":"UTC"}"#).is_err());
}

#[test]
fn the_evening_before_a_zones_first_change_fires_whichever_pass_is_asked_for() {
    for fold in [Fold::First, Fold::Last, Fold::Both] {
        let troll = ScheduleSpec::new("0 23 * * *").tz("Antarctica/Troll").fold(fold);
        let fires = shown(troll, "2005-02-11T00:00:00Z", 2);
        assert_eq!(fires, ["2005-02-11 23:00:00 +00:00", "2005-02-12 23:00:00 +00:00"], "{fold:?}");
    }
}
