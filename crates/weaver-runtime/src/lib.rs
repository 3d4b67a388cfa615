//! Running tasks: handlers, workers, and clients that enqueue and wait for results.
//!
//! ```text
//! Registry (handlers by type)
//!     │
//! Worker ── WorkSource ──▶ lease · renew · finish · confirm_stopped · wait · heartbeat · append
//!     │         └─ LocalSource: decide() + commit on a store in this process
//!     ├─ fetch         leases batches, starts handlers, prefetches a few; applies backpressure
//!     ├─ finish        reports outcomes in batches
//!     ├─ renew         lease renewal, cancellation; stops handlers whose lease cannot be renewed (G2)
//!     ├─ watch         waits for cancellations
//!     └─ housekeeping  heartbeats, statistics, lease expiry and retention (G3); ProcessLock: leases of
//!                      processes of this machine that have ended
//! ```
//!
//! A worker delivers at least once: a task whose lease expired runs again, and its old handler's outcome is
//! refused (fencing). [`Shutdown`] drains a worker: it leases nothing new, finishes what runs within its
//! grace period, and releases the rest.

mod client;
mod clock;
mod ctx;
mod error;
mod events;
mod execute;
mod handler;
mod maintenance;
mod process_lock;
mod registry;
mod shared;
mod shutdown;
mod source;
pub mod testing;
mod worker;

pub use client::{Client, NoResult, TaskHandle};
pub use clock::SystemClock;
pub use ctx::{Ctx, LogLimits, StopReason};
pub use error::TaskError;
pub use events::{Event, EventAt, subscribe, subscribe_from};
pub use handler::{TaskHandler, blocking};
pub use maintenance::{MaintenanceFailing, MaintenanceWatch};
pub use process_lock::ProcessLock;
pub use registry::{MissingShared, Registry};
pub use shared::{FromShared, Shared, SharedType};
pub use shutdown::Shutdown;
pub use source::{End, Ended, EndedAndLeased, LocalSource, Maintained, SharedLeased, WorkSource};
pub use worker::{BuildError, RunSummary, Worker, WorkerBuilder};
