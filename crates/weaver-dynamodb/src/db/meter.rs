//! Counts requests and consumed capacity.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ConsumedCapacity;
use parking_lot::Mutex;

/// Requests sent to DynamoDB, and the capacity they consumed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Requests by operation, including retries.
    pub requests: BTreeMap<&'static str, u64>,
    /// Retries: throttled, without a response, or only partly processed.
    pub retried: u64,
    /// Retries because of throttling.
    pub throttled: u64,
    /// Writes and transactions whose condition failed.
    pub condition_failures: u64,
    /// Read capacity units consumed.
    pub read_units: f64,
    /// Write capacity units consumed, by table or index name.
    pub write_units: BTreeMap<String, f64>,
}

impl Usage {
    /// Number of requests of an operation, such as `PutItem`.
    pub fn of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or_default()
    }

    /// Write capacity units consumed by a table or an index.
    pub fn write_units_of(&self, place: &str) -> f64 {
        self.write_units.get(place).copied().unwrap_or_default()
    }

    /// Number of requests of all operations.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// Accumulates [`Usage`]; shared by all requests of a client.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Usage>);

impl Meter {
    /// The totals since the client was created.
    pub fn usage(&self) -> Usage {
        self.0.lock().clone()
    }

    pub(super) fn sent(&self, operation: &'static str) {
        *self.0.lock().requests.entry(operation).or_default() += 1;
    }

    pub(super) fn retried(&self, throttled: bool) {
        let mut usage = self.0.lock();
        usage.retried += 1;
        usage.throttled += u64::from(throttled);
    }

    pub(super) fn condition_failed(&self) {
        self.0.lock().condition_failures += 1;
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
