//! Task ids without a shared counter: 42 bits of milliseconds and a 21-bit counter with a random start.

use parking_lot::Mutex;
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

const COUNTER_BITS: u32 = 21;
/// The random start is in the lower half of the counter's range, to leave space for bursts.
const START_MASK: u64 = (1 << (COUNTER_BITS - 1)) - 1;

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
