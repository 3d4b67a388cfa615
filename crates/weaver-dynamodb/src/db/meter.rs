//! Counting what is asked, and what it costs.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ConsumedCapacity;
use parking_lot::Mutex;

/// What has been asked of DynamoDB, and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Requests by operation, repetitions included.
    pub requests: BTreeMap<&'static str, u64>,
    /// How often a request was sent again: throttled, unanswered, or only partly done.
    pub repeated: u64,
    /// How often DynamoDB said that it was asked too much.
    pub throttled: u64,
    /// How often a write was refused by its condition.
    pub refused: u64,
    /// Read units.
    pub read_units: f64,
    /// Write units by where they were spent: tables, and indexes by their names.
    pub write_units: BTreeMap<String, f64>,
}

impl Usage {
    /// How often an operation was asked for.
    pub fn of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or_default()
    }

    /// Write units on an index, or on the tables themselves.
    pub fn write_units_of(&self, place: &str) -> f64 {
        self.write_units.get(place).copied().unwrap_or_default()
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// Keeps the count.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Usage>);

impl Meter {
    /// The count so far.
    pub fn usage(&self) -> Usage {
        self.0.lock().clone()
    }

    pub(super) fn asked(&self, operation: &'static str) {
        *self.0.lock().requests.entry(operation).or_default() += 1;
    }

    pub(super) fn repeated(&self, throttled: bool) {
        let mut usage = self.0.lock();
        usage.repeated += 1;
        usage.throttled += u64::from(throttled);
    }

    pub(super) fn refused(&self) {
        self.0.lock().refused += 1;
    }

    pub(super) fn read(&self, consumed: Option<&ConsumedCapacity>) {
        self.0.lock().read_units += consumed.and_then(ConsumedCapacity::capacity_units).unwrap_or_default();
    }

    pub(super) fn wrote(&self, consumed: Option<&ConsumedCapacity>) {
        let Some(consumed) = consumed else { return };
        let mut usage = self.0.lock();
        let table = consumed.table_name().unwrap_or_default().to_owned();
        let whole = consumed.capacity_units().unwrap_or_default();
        let mut rest = whole;
        for (index, units) in consumed.global_secondary_indexes().into_iter().flatten() {
            let units = units.capacity_units().unwrap_or_default();
            rest -= units;
            *usage.write_units.entry(index.clone()).or_default() += units;
        }
        *usage.write_units.entry(table).or_default() += rest;
    }
}
