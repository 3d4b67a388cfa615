//! Ready-made plans.

use std::time::Duration;

use parking_lot::Mutex;

use crate::faults::{CallSite, Fault, Plan};

/// A plan that lists faults call by call; other calls have none.
#[derive(Debug, Default)]
pub struct Script {
    lines: Vec<(&'static str, u64, Fault)>,
}

impl Script {
    /// A plan without any faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault for call `number` (from 1) of a method.
    #[must_use]
    pub fn on(mut self, method: &'static str, number: u64, fault: Fault) -> Self {
        self.lines.push((method, number, fault));
        self
    }
}

impl Plan for Script {
    fn fault(&self, site: &CallSite) -> Fault {
        let mentions = |line: &&(&'static str, u64, Fault)| (line.0, line.1) == (site.method, site.number);
        self.lines.iter().find(mentions).map_or(Fault::None, |line| line.2)
    }
}

/// Fault rates, in percent of the calls. The rest of 100 has no fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Rate of [`Fault::FailBefore`]: the call never arrives.
    pub fail_before: u8,
    /// Rate of [`Fault::FailAfter`]: the answer is lost.
    pub fail_after: u8,
    /// Rate of duplicated calls, executed twice.
    pub duplicate: u8,
    /// Rate of reads that get a stale answer.
    pub stale_read: u8,
    /// Rate of delayed calls, up to `delay_max`.
    pub delay: u8,
    /// Longest delay of a delayed call.
    pub delay_max: Duration,
}

/// A plan drawn from a seed: the same seed and the same calls, the same faults.
#[derive(Debug)]
pub struct Seeded {
    rates: Rates,
    state: Mutex<u64>,
}

impl Seeded {
    /// Faults at these rates.
    ///
    /// # Panics
    /// If the rates add up to more than 100.
    pub fn new(seed: u64, rates: Rates) -> Self {
        let parts = [rates.fail_before, rates.fail_after, rates.duplicate, rates.stale_read, rates.delay];
        let sum: u32 = parts.into_iter().map(u32::from).sum();
        assert!(sum <= 100, "the rates add up to {sum} percent");
        Self { rates, state: Mutex::new(seed) }
    }
}

impl Plan for Seeded {
    fn fault(&self, _: &CallSite) -> Fault {
        // Always two draws, so that one rate does not shift which calls the others hit.
        let (draw, share) = {
            let mut state = self.state.lock();
            (split_mix(&mut state) % 100, split_mix(&mut state))
        };
        let rates = &self.rates;
        let delay_us = u64::try_from(rates.delay_max.as_micros()).unwrap_or(u64::MAX).max(1);
        let faults = [
            (rates.fail_before, Fault::FailBefore),
            (rates.fail_after, Fault::FailAfter),
            (rates.duplicate, Fault::Duplicate),
            (rates.stale_read, Fault::StaleRead),
            (rates.delay, Fault::Delay(Duration::from_micros(share % delay_us))),
        ];
        let mut below = 0;
        for (rate, fault) in faults {
            below += u64::from(rate);
            if draw < below {
                return fault;
            }
        }
        Fault::None
    }
}

/// SplitMix64: small, well distributed, and our own, so that a seed stays reproducible across versions.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
