//! Pseudo-random numbers of the simulation.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::faults::split_mix;

/// A seeded generator, reproducible across versions.
#[derive(Debug, Clone)]
pub(in crate::simulation) struct Rng(u64);

impl Rng {
    pub(in crate::simulation) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::simulation) fn bits(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    pub(in crate::simulation) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.bits() % (range.end() - range.start() + 1)
    }

    pub(in crate::simulation) fn count(&mut self, range: RangeInclusive<u32>) -> u32 {
        let drawn = self.within(u64::from(*range.start())..=u64::from(*range.end()));
        u32::try_from(drawn).expect("it is within a range of 32 bits")
    }

    pub(in crate::simulation) fn span_ms(&mut self, range_ms: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range_ms))
    }

    /// True with this probability.
    pub(in crate::simulation) fn chance(&mut self, percent: u64) -> bool {
        self.within(0..=99) < percent
    }

    pub(in crate::simulation) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let last = items.len() - 1;
        items[usize::try_from(self.within(0..=last as u64)).expect("an index")]
    }

    /// Draws a value with this probability.
    pub(in crate::simulation) fn maybe<T>(
        &mut self,
        percent: u64,
        draw: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.chance(percent).then(|| draw(self))
    }

    /// An independent generator: its draws do not shift those of others.
    #[must_use]
    pub(in crate::simulation) fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}
