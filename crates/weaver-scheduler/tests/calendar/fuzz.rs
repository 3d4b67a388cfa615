//! Fuzzed schedules: refused with the position of the error, or fired in order.
//!
//! The first line of an input is the schedule, the second the zone.

use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{Schedule, ScheduleSpec};
use weaver_testkit::fuzz::Target;

fn read(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let (schedule, zone) = text.split_once('\n').unwrap_or((&text, "UTC"));
    let schedule = match Schedule::new(ScheduleSpec::new(schedule).tz(zone)) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert!(error.text.get(error.at.clone()).is_some(), "{error:?} points outside of its text");
            assert_eq!(
                error.pointer().lines().next_back().map(str::trim_start).map(|line| line.is_empty()),
                Some(false)
            );
            return format!("{:?} {}", error.part, error.problem);
        }
    };
    assert!(!schedule.describe().is_empty());
    // Around a leap day, at both ends of time, and where Berlin's clocks change.
    for after in [0, 1_709_164_800_000_000, 1_743_292_800_000_000, Timestamp::MAX.as_micros()] {
        let fires = schedule.next(Timestamp::from_micros(after), 3);
        let instants: Vec<Timestamp> = fires.iter().map(|fire| fire.at).collect();
        assert!(
            instants.is_sorted() && instants.iter().all(|at| at.as_micros() > after),
            "{after}: {instants:?}"
        );
    }
    format!("words {}", schedule.describe())
}

const WORDS: &[&str] = &[
    "*",
    "*/",
    "/0",
    "L",
    "W",
    "#",
    "?",
    "-",
    ",",
    "JAN",
    "mon",
    " ",
    "@daily",
    "@every ",
    "every ",
    "1h30m",
    "60",
    "31",
    "2-30",
    "\nEurope/Berlin",
    "\nPacific/Apia",
    "\n",
    "TZ=",
    "99999999999999999999",
];

#[test]
fn fuzzed_schedules_are_refused_with_a_position_or_fire_in_order() {
    Target::new("schedule", env!("CARGO_MANIFEST_DIR")).inputs(500).words(WORDS).run(read);
}
