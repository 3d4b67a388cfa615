//! The simulation's own dice.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::faults::split_mix;

/// Numbers drawn from a seed, the same for ever.
#[derive(Debug, Clone)]
pub(in crate::simulation) struct Rng(u64);

impl Rng {
    /// Starts at a seed.
    pub(in crate::simulation) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(in crate::simulation) fn bits(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    /// A number from the range.
    pub(in crate::simulation) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.bits() % (range.end() - range.start() + 1)
    }

    /// A small number from the range.
    pub(in crate::simulation) fn count(&mut self, range: RangeInclusive<u32>) -> u32 {
        let drawn = self.within(u64::from(*range.start())..=u64::from(*range.end()));
        u32::try_from(drawn).expect("it is within a range of 32 bits")
    }

    /// A span of so many milliseconds.
    pub(in crate::simulation) fn span_ms(&mut self, range_ms: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range_ms))
    }

    /// Whether something happens that happens so often.
    pub(in crate::simulation) fn chance(&mut self, percent: u64) -> bool {
        self.within(0..=99) < percent
    }

    /// One of several.
    pub(in crate::simulation) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let last = items.len() - 1;
        items[usize::try_from(self.within(0..=last as u64)).expect("an index")]
    }

    /// Something that happens so often, or nothing.
    pub(in crate::simulation) fn maybe<T>(
        &mut self,
        percent: u64,
        draw: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.chance(percent).then(|| draw(self))
    }

    /// Dice of their own for somebody: what they draw shifts nobody else's draws.
    #[must_use]
    pub(in crate::simulation) fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}
