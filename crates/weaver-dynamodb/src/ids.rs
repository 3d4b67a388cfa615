//! Task ids without a shared counter: 42 bits of milliseconds and a 21-bit counter with a random start.

use parking_lot::Mutex;
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

const COUNTER_BITS: u32 = 21;
/// The random start is in the lower half of the counter's range, to leave space for bursts.
const START_MASK: u64 = (1 << (COUNTER_BITS - 1)) - 1;

/// The place of a task in the order of ids, if another client created it at this instant: the ids that Weaver
/// draws begin with the time of creation, too. Microseconds fill the upper half of the counter's bits.
pub(crate) fn place_of(created_at: Timestamp) -> u64 {
    let micros = u64::try_from(created_at.as_micros()).unwrap_or_default();
    let place = (micros / 1000).saturating_mul(1 << COUNTER_BITS) | ((micros % 1000) << (COUNTER_BITS - 10));
    place.min(TaskId::FIRST_FOREIGN.0 - 1)
}

/// Generates ids that grow within this process.
#[derive(Debug, Default)]
pub(crate) struct Ids(Mutex<u64>);

impl Ids {
    /// The next id. It grows even if the clock does not. A collision with another process's id fails the
    /// condition of the write, and the caller draws again.
    pub(crate) fn draw(&self, now: Timestamp) -> TaskId {
        let millis = u64::try_from(now.as_micros() / 1000).unwrap_or_default();
        let fresh = (millis << COUNTER_BITS) | (crate::db::random_bits() as u64 & START_MASK);
        let mut last = self.0.lock();
        let same_millisecond = *last >> COUNTER_BITS >= millis;
        *last = if same_millisecond { *last + 1 } else { fresh };
        TaskId(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_other_clients_are_ordered_by_creation_among_those_of_weaver() {
        let at = |micros: i64| Timestamp::from_micros(1_767_225_600_000_000 + micros);
        let drawn = Ids::default().draw(at(5_000)).0;
        let places = [place_of(at(0)), place_of(at(1)), place_of(at(999)), place_of(at(1_000)), drawn];
        assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
        assert!(drawn < place_of(at(6_000)));
        assert!(place_of(Timestamp::from_micros(i64::MAX)) < TaskId::FIRST_FOREIGN.0);
    }

    #[test]
    fn numbers_grow_have_19_digits_and_stay_below_those_of_others() {
        let ids = Ids::default();
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let mut drawn: Vec<_> = (0..1000).map(|_| ids.draw(now)).collect();
        drawn.push(ids.draw(Timestamp::from_micros(1)));
        assert!(drawn.is_sorted_by(|one, next| one < next));
        assert!(drawn.iter().all(|id| !id.is_foreign() && id.to_string().len() == 19));
        assert!(!Ids::default().draw(Timestamp::from_micros(4_000_000_000_000_000)).is_foreign());
    }
}
