//! A brute-force calendar without zones and offsets: it reads the civil time at every half minute and matches
//! it.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weaver_scheduler::calendar::{Fold, Gap};

/// What a cron expression means, as sets.
#[derive(Debug, Clone)]
pub(crate) struct Meaning {
    pub(crate) text: String,
    pub(crate) minutes: BTreeSet<i8>,
    pub(crate) hours: BTreeSet<i8>,
    /// Days of the month; `None`: any.
    pub(crate) days: Option<BTreeSet<i8>>,
    /// The last day of a month, besides `days`.
    pub(crate) last_day: bool,
    pub(crate) months: BTreeSet<i8>,
    /// From Sunday, 0; `None`: any.
    pub(crate) weekdays: Option<BTreeSet<i8>>,
    pub(crate) is_interval: bool,
}

impl Meaning {
    pub(crate) fn matches_day(&self, civil: DateTime) -> bool {
        let day = self.days.as_ref().map(|days| {
            days.contains(&civil.day()) || (self.last_day && civil.day() == civil.date().days_in_month())
        });
        let weekday =
            self.weekdays.as_ref().map(|days| days.contains(&civil.weekday().to_sunday_zero_offset()));
        let of_month = match (day, weekday) {
            (None, None) => true,
            (Some(one), None) | (None, Some(one)) => one,
            // As in cron: if both are restricted, one match is enough.
            (Some(one), Some(other)) => one || other,
        };
        of_month && self.months.contains(&civil.month())
    }

    pub(crate) fn matches(&self, civil: DateTime) -> bool {
        civil.second() == 0
            && self.minutes.contains(&civil.minute())
            && self.hours.contains(&civil.hour())
            && self.matches_day(civil)
    }

    fn matches_between(&self, from: DateTime, to: DateTime) -> bool {
        let mut civil = from;
        while civil < to {
            if self.matches(civil) {
                return true;
            }
            civil = civil.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
        }
        false
    }
}

/// The fires in `[from, to)`. Offsets since 1972 are whole half minutes, and so are changes of them.
pub(crate) fn fires(
    meaning: &Meaning,
    zone: &TimeZone,
    (gap, fold): (Gap, Fold),
    (from, to): (i64, i64),
) -> Vec<i64> {
    // A civil time can recur within a day: search beyond both ends.
    const BEYOND: i64 = 26 * 3600;
    let shown: Vec<(i64, DateTime)> = ((from - BEYOND) / 30..(to + BEYOND) / 30)
        .map(|half_minute| half_minute * 30)
        .map(|second| (second, zone.to_datetime(Timestamp::from_second(second).unwrap())))
        .collect();
    let mut passes: HashMap<DateTime, Vec<i64>> = HashMap::new();
    for (second, civil) in &shown {
        passes.entry(*civil).or_default().push(*second);
    }
    let mut fires = BTreeSet::new();
    for (civil, seconds) in passes.iter().filter(|(civil, _)| meaning.matches(**civil)) {
        assert!(seconds.len() <= 2, "{civil} is shown {} times", seconds.len());
        match fold {
            Fold::First => fires.extend(seconds.first()),
            Fold::Last => fires.extend(seconds.last()),
            Fold::Both => fires.extend(seconds),
        }
    }
    for pair in shown.windows(2) {
        let expected = pair[0].1.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
        if gap == Gap::Shift && pair[1].1 > expected && meaning.matches_between(expected, pair[1].1) {
            fires.insert(pair[1].0);
        }
    }
    fires.into_iter().filter(|second| (from..to).contains(second)).collect()
}
