//! Invalid schedules and their error messages.

use weaver_scheduler::calendar::{BadSchedule, Gap, Schedule, ScheduleSpec};

fn bad(expression: &str) -> BadSchedule {
    Schedule::new(ScheduleSpec::new(expression).tz("UTC")).expect_err(expression)
}

#[test]
fn an_invalid_expression_is_underlined_and_a_correction_is_suggested() {
    let cases = [
        ("0 25 * * *", "hour: 25 is not between 0 and 23", "25"),
        ("0 24 * * *", "midnight is 0", "24"),
        ("60 * * * *", "minute: 60 is not between 0 and 59; the full hour is 0", "60"),
        ("0 0 0 * *", "the first day of month is 1", "0"),
        ("0 0 * * MOM", "day of week: `MOM` is not a day of week; did you mean `MON`?", "MOM"),
        ("0 0 1 febuary *", "did you mean `FEB`?", "febuary"),
        ("5/10 * * * *", "did you mean `5-59/10`?", "5/10"),
        ("/10 * * * *", "did you mean `*/10`?", "/10"),
        ("*/0 * * * *", "minute: `0` is not a step; give a step from 1 to 59", "0"),
        ("0 0 * * FRI-MON", "write `FRI-6,0-MON`", "FRI-MON"),
        ("0 0 * * FRI#6", "give #1 to #5", "6"),
        ("1,,2 * * * *", "a list has an empty member", "1,,2"),
        ("0 0 30 2 *", "no month has such a day, so it never fires", "30 2"),
        ("every 5x", "`x` is not a unit of time", "5x"),
        ("every 5", "`5` needs a unit", "5"),
        ("daily at 25:00", "`25:00` is not a time of day", "25:00"),
        ("evry 5m", "did you mean `every 5m`?", "evry"),
        ("@dayly", "did you mean `@daily`?", "@dayly"),
        ("* * *", "3 fields are neither 5 nor 6", "* * *"),
        ("once at tomorrow", "`tomorrow` is not a time", "tomorrow"),
    ];
    for (expression, says, marks) in cases {
        let bad = bad(expression);
        assert!(bad.to_string().contains(says), "{expression}: {bad}");
        assert_eq!(&bad.text[bad.at.clone()], marks, "{expression}: {bad}");
    }
}

#[test]
fn the_pointer_underlines_the_field() {
    assert_eq!(bad("0 25 * * *").pointer(), "0 25 * * *\n  ^^");
}

#[test]
fn times_of_day_need_a_zone_and_intervals_of_elapsed_time_do_not() {
    let without = Schedule::new(ScheduleSpec::new("0 2 * * *")).unwrap_err();
    assert_eq!(without.field, "tz");
    assert!(without.to_string().contains("give one, like Europe/Berlin"), "{without}");
    assert!(Schedule::new(ScheduleSpec::new("every 5m")).is_ok());
}

#[test]
fn a_zone_that_does_not_exist_gets_the_one_that_was_meant() {
    for (name, meant) in
        [("Berlin", "Europe/Berlin"), ("Europe/Berln", "Europe/Berlin"), ("new york", "America/New_York")]
    {
        let bad = Schedule::new(ScheduleSpec::new("0 2 * * *").tz(name)).unwrap_err();
        assert!(bad.to_string().contains(&format!("did you mean `{meant}`?")), "{name}: {bad}");
    }
}

#[test]
fn an_interval_cannot_be_shifted_out_of_a_gap() {
    let spec = ScheduleSpec::new("0 * * * *").tz("Europe/Berlin").gap(Gap::Shift);
    assert_eq!(Schedule::new(spec).unwrap_err().field, "gap");
    assert!(Schedule::new(ScheduleSpec::new("every 5m").gap(Gap::Skip)).is_err());
}
