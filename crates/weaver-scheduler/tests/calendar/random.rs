//! Random expressions in any zone, around any of its DST changes.

use std::collections::BTreeSet;

use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weaver_core::time::Timestamp as Instant;
use weaver_scheduler::calendar::{Fold, Gap, Schedule, ScheduleSpec};

use crate::brute::{Meaning, fires};

const HOUR: i64 = 3600;

/// A field's text, what it means, and whether it repeats.
type Field = (String, BTreeSet<i8>, bool);

fn all(min: i8, max: i8) -> BTreeSet<i8> {
    (min..=max).collect()
}

fn field(min: i8, max: i8) -> impl Strategy<Value = Field> {
    let value = min..=max;
    let several = proptest::collection::btree_set(min..=max, 1..4).prop_map(|values| {
        let text: Vec<String> = values.iter().map(ToString::to_string).collect();
        (text.join(","), values, false)
    });
    let steps = (1..=30_i8).prop_map(move |step| {
        let step = step.min(max);
        (format!("*/{step}"), (min..=max).step_by(step as usize).collect(), true)
    });
    let range = (value.clone(), value, 1..4_i8).prop_filter_map("ordered", move |(low, high, step)| {
        let whole = low == min && high == max;
        (low < high && !whole)
            .then(|| (format!("{low}-{high}/{step}"), (low..=high).step_by(step as usize).collect(), false))
    });
    prop_oneof![several, steps, range, Just(("*".to_owned(), all(min, max), true))]
}

fn days() -> impl Strategy<Value = (String, Option<BTreeSet<i8>>, bool)> {
    prop_oneof![
        4 => Just(("*".to_owned(), None, false)),
        1 => Just(("L".to_owned(), Some(BTreeSet::new()), true)),
        2 => proptest::collection::btree_set(1..=31_i8, 1..5).prop_map(|days| {
            let text: Vec<String> = days.iter().map(ToString::to_string).collect();
            (text.join(","), Some(days), false)
        }),
    ]
}

fn weekdays() -> impl Strategy<Value = (String, Option<BTreeSet<i8>>)> {
    prop_oneof![
        4 => Just(("*".to_owned(), None)),
        1 => Just(("MON-FRI".to_owned(), Some(all(1, 5)))),
        1 => Just(("sat,7".to_owned(), Some([0, 6].into()))),
    ]
}

pub(crate) fn meaning() -> impl Strategy<Value = Meaning> {
    let months = prop_oneof![
        4 => Just(("*".to_owned(), all(1, 12))),
        1 => Just(("JAN-JUN".to_owned(), all(1, 6))),
        1 => Just(("2,3,10,11,12".to_owned(), [2, 3, 10, 11, 12].into())),
    ];
    (field(0, 59), field(0, 23), days(), months, weekdays()).prop_map(
        |(minutes, hours, days, months, weekdays)| Meaning {
            text: format!("{} {} {} {} {}", minutes.0, hours.0, days.0, months.0, weekdays.0),
            is_interval: minutes.2 || hours.2,
            minutes: minutes.1,
            hours: hours.1,
            days: days.1,
            last_day: days.2,
            months: months.1,
            weekdays: weekdays.1,
        },
    )
}

fn zone_names() -> Vec<String> {
    TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect()
}

/// Zones with unusual rules are drawn more often.
fn zone() -> impl Strategy<Value = String> {
    let strange = [
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Pacific/Fakaofo",
        "Africa/Casablanca",
        "Africa/Monrovia",
        "America/St_Johns",
        "Antarctica/Troll",
        "Asia/Kathmandu",
        "Asia/Pyongyang",
        "America/Caracas",
        "Europe/Dublin",
    ];
    prop_oneof![
        proptest::sample::select(strange.to_vec()).prop_map(str::to_owned),
        proptest::sample::select(zone_names()),
    ]
}

fn gap() -> impl Strategy<Value = Option<Gap>> {
    proptest::sample::select(vec![None, Some(Gap::Shift), Some(Gap::Skip)])
}

fn fold() -> impl Strategy<Value = Option<Fold>> {
    proptest::sample::select(vec![None, Some(Fold::First), Some(Fold::Last), Some(Fold::Both)])
}

/// The same on any day, in one hour: where the change is.
fn aimed(meaning: Meaning, hour: i8) -> Meaning {
    let minutes = meaning.text.split(' ').next().unwrap();
    Meaning {
        text: format!("{minutes} {hour} * * *"),
        is_interval: minutes.contains('*'),
        hours: [hour].into(),
        days: None,
        last_day: false,
        months: all(1, 12),
        weekdays: None,
        ..meaning
    }
}

fn seconds(fire: Instant) -> i64 {
    assert_eq!(fire.as_micros() % 1_000_000, 0);
    fire.as_micros() / 1_000_000
}

proptest! {
    // A gate must not depend on luck; for more, raise the cases and change the seed.
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(7117), ..ProptestConfig::default() })]

    #[test]
    fn every_fire_around_a_dst_change_is_where_a_scan_of_each_half_minute_finds_it(
        meaning in meaning(),
        name in zone(),
        since in 1973_i16..2140,
        later in 0..2_usize,
        aim in proptest::option::weighted(0.7, -80..80_i64),
        shift in -20..20_i64,
        gap in gap(),
        fold in fold(),
    ) {
        let zone = TimeZoneDatabase::bundled().get(&name).unwrap();
        let since = jiff::civil::date(since, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
        // The next change or the one after it; where there is none, the last there was.
        let next = zone.following(since).nth(later).map(|change| change.timestamp());
        let change = next.or_else(|| zone.preceding(since).next().map(|change| change.timestamp()));
        let change = change.filter(|change| change.as_second() > 100_000_000).unwrap_or(since);
        let meaning = match aim {
            Some(minutes) => {
                let shown = zone.to_datetime(change - jiff::SignedDuration::from_secs(1));
                aimed(meaning, shown.saturating_add(jiff::SignedDuration::from_mins(minutes)).hour())
            }
            None => meaning,
        };
        let middle = change.as_second() / 60 * 60 + shift * HOUR;
        let (from, to) = (middle - 24 * HOUR, middle + 24 * HOUR);

        let gap = gap.filter(|gap| !meaning.is_interval || *gap == Gap::Skip);
        let mut spec = ScheduleSpec::new(&meaning.text).tz(&name);
        (spec.gap, spec.fold) = (gap, fold);
        let schedule = match Schedule::new(spec) {
            Ok(schedule) => schedule,
            // The 31st of February.
            Err(bad) => { prop_assert_eq!(bad.part, Some("day of month")); return Ok(()); }
        };
        let defaults =
            if meaning.is_interval { (Gap::Skip, Fold::Both) } else { (Gap::Shift, Fold::First) };
        let rules = (gap.unwrap_or(defaults.0), fold.unwrap_or(defaults.1));
        let expected = fires(&meaning, &zone, rules, (from, to));

        let mut found = Vec::new();
        let mut after = Instant::from_micros((from - 1) * 1_000_000);
        while let Some(fire) = schedule.next_after(after).filter(|fire| seconds(fire.at) < to) {
            prop_assert!(fire.at > after, "{} in {name} does not move on", meaning.text);
            after = fire.at;
            found.push(seconds(fire.at));
        }
        prop_assert_eq!(found, expected, "{} in {}", meaning.text, name);
    }
}
