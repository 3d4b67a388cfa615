//! Descriptions of schedules for people who do not read cron.

use weaver_scheduler::calendar::{Schedule, ScheduleSpec};

fn words(schedule: &str) -> String {
    Schedule::new(ScheduleSpec::new(schedule).tz("Europe/Berlin")).unwrap().describe()
}

#[test]
fn a_schedule_is_described_in_words() {
    for (schedule, said) in [
        ("every 5m", "Every 5 minutes"),
        ("every 1h", "Every hour"),
        ("every 90m", "Every hour and 30 minutes"),
        ("daily at 02:30", "Every day at 02:30"),
        ("@monthly", "At 00:00, on day 1"),
        ("@midnight", "Every day at 00:00"),
        ("0 9 * * 1-5", "At 09:00, on Monday to Friday"),
        ("0 * * * *", "At minute 0 past every hour"),
        ("* * * * *", "Every minute"),
        ("*/15 9-17 * * MON", "Every 15 minutes, of hour 9-17, on Monday"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("0 0 1,15 * 5", "At 00:00, on day 1 and 15 or Friday"),
        ("0 12 L JAN *", "At 12:00, on the last day of the month, in January"),
        ("once at 2027-03-28T02:30", "Once, at 2027-03-28 02:30:00"),
        ("once at 2027-03-28T02:30:00Z", "Once, at 2027-03-28T02:30:00.000000Z"),
    ] {
        assert_eq!(words(schedule), said, "{schedule}");
    }
}
