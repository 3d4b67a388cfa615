//! Weaver's domain: what a task is, its state machine, and the ports that a store implements.
//!
//! Pure: no I/O, no ambient time, no randomness.
//!
//! Start reading at [`lifecycle`], the state machine; then [`queue::Queue`], the port that workers use; then
//! [`queue::memory`], its first implementation.
//!
//! ```text
//! task ──▶ lifecycle::decide ──▶ Transition ──▶ Queue::commit          ports: Tasks, Admin, Runners,
//!  ▲             ▲                                  │                         Documents, Journal
//! NewTask     Command                            changes                explain: why does it not run?
//! ```

pub mod admission;
pub mod bytes_text;
pub mod clock;
pub mod cluster;
pub mod error;
pub mod event;
pub mod explain;
pub mod id;
pub mod json_number;
pub mod lease;
pub mod lifecycle;
pub mod limits;
pub mod name;
pub mod network;
pub mod outcome;
pub mod ports;
pub mod projection;
pub mod quarantine;
pub mod queue;
pub mod retry;
pub mod store_clock;
pub mod task;
pub mod time;

/// What most users need, for `use weaver_core::prelude::*`.
pub mod prelude {
    pub use crate::clock::Clock;
    pub use crate::error::{Error, Result};
    pub use crate::id::{LeaseToken, TaskId, TaskKey};
    pub use crate::lease::{Lease, LeaseRequest, Leased};
    pub use crate::name::{Namespace, QueueName, TaskType, WorkerId};
    pub use crate::outcome::Outcome;
    pub use crate::ports::Store;
    pub use crate::queue::memory::InMemoryQueue;
    pub use crate::queue::{Queue, QueueExt};
    pub use crate::retry::RetryPolicy;
    pub use crate::task::{NewTask, TaskRecord, TaskState};
    pub use crate::time::Timestamp;
}
