//! From civil times to instants.
//!
//! A zone is a sequence of segments with one offset each. Inside a segment civil times and instants
//! correspond one to one; only civil times between two segments (a DST gap) or in both (a DST fold) need a
//! rule. No other property of a zone is used, so a gap of half an hour or of a whole day is no special case.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::cron::Pattern;
use super::schedule::{Fold, Gap, Note};

/// Segments that a search covers: centuries, in any zone.
const SEGMENTS_MAX: usize = 2000;

pub(super) struct Walk<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) zone: &'a TimeZone,
    pub(super) gap: Gap,
    pub(super) fold: Fold,
}

/// An interval of time with one UTC offset.
#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Its first instant; `None`: unbounded.
    start: Option<Timestamp>,
    /// The first instant after it.
    end: Option<Timestamp>,
    offset: Offset,
}

impl Segment {
    fn at(zone: &TimeZone, instant: Timestamp) -> Self {
        let second = jiff::SignedDuration::from_secs(1);
        // Transitions strictly before the next second: at or before this one.
        let next_second = instant.checked_add(second).unwrap_or(Timestamp::MAX);
        Self {
            start: zone.preceding(next_second).next().map(|transition| transition.timestamp()),
            end: zone.following(instant).next().map(|transition| transition.timestamp()),
            offset: zone.to_offset(instant),
        }
    }

    fn before(&self, zone: &TimeZone) -> Option<Self> {
        let last = self.start?.checked_sub(jiff::SignedDuration::from_secs(1)).ok()?;
        Some(Self { end: self.start, ..Self::at(zone, last) })
    }

    fn after(&self, zone: &TimeZone) -> Option<Self> {
        // The database has no transition before a zone's first one, so the start is set here.
        Some(Self { start: self.end, ..Self::at(zone, self.end?) })
    }

    /// The instant of a civil time, if it is in this segment.
    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        let instant = self.offset.to_timestamp(civil).ok()?;
        let inside =
            self.start.is_none_or(|start| instant >= start) && self.end.is_none_or(|end| instant < end);
        inside.then_some(instant)
    }
}

impl Walk<'_> {
    /// The first fire after an instant.
    pub(super) fn next(&self, after: Timestamp) -> Option<(Timestamp, Vec<Note>)> {
        // Civil times are whole seconds, and so are offsets.
        let mut cursor = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
        let mut notes = Vec::new();
        let mut segment = Segment::at(self.zone, cursor);
        for _ in 0..SEGMENTS_MAX {
            let before = segment.before(self.zone);
            if segment.start == Some(cursor)
                && let Some(wanted) = before.as_ref().and_then(|before| self.in_gap(before, &segment, cursor))
            {
                if self.gap == Gap::Shift {
                    return Some((cursor, vec![Note::Shifted { wanted }]));
                }
                notes.push(Note::Skipped { wanted });
            }
            if let Some((instant, note)) = self.in_segment(before.as_ref(), &segment, cursor) {
                notes.extend(note);
                return Some((instant, notes));
            }
            segment = segment.after(self.zone)?;
            cursor = segment.start?;
        }
        None
    }

    /// The first match in the gap before a segment.
    fn in_gap(&self, before: &Segment, segment: &Segment, start: Timestamp) -> Option<DateTime> {
        let (from, to) = (before.offset.to_datetime(start), segment.offset.to_datetime(start));
        if from >= to {
            return None;
        }
        self.pattern.at_or_after(from).filter(|civil| *civil < to)
    }

    /// The first match in a segment that the fold rule allows.
    fn in_segment(
        &self,
        before: Option<&Segment>,
        segment: &Segment,
        cursor: Timestamp,
    ) -> Option<(Timestamp, Option<Note>)> {
        let after = segment.after(self.zone);
        let mut from = segment.offset.to_datetime(cursor);
        loop {
            let civil = self.pattern.at_or_after(from)?;
            let instant = segment.instant(civil)?;
            let was = before.is_some_and(|before| before.instant(civil).is_some());
            let comes_again = after.as_ref().is_some_and(|after| after.instant(civil).is_some());
            let allowed = match self.fold {
                Fold::First => !was,
                Fold::Last => !comes_again,
                Fold::Both => true,
            };
            if allowed {
                let note = match (was, comes_again) {
                    (true, _) => Some(Note::SecondPass { civil }),
                    (false, true) => Some(Note::FirstPass { civil }),
                    (false, false) => None,
                };
                return Some((instant, note));
            }
            from = civil.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
        }
    }
}
