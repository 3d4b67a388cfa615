//! Running tasks: handlers, workers, and the clients that wait for results.
//!
//! ```text
//! Registry (handlers by type)
//!     │
//! Worker ── WorkSource ──▶ lease · renew · finish · confirm_stopped · wait · beat · append
//!     │         └─ LocalSource: decide() + commit on a store in this process
//!     ├─ fetch     leases batches, starts handlers, buffers a few
//!     ├─ finish    reports ends in batches
//!     ├─ keep      renews leases, passes cancellations on, stops what cannot be renewed in time (G2)
//!     └─ upkeep    heartbeats, statistics, expiry of what others left behind (G3)
//! ```

mod client;
mod clock;
mod ctx;
mod error;
mod events;
mod execute;
mod handler;
mod maintenance;
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
pub use registry::{MissingShared, Registry};
pub use shared::{FromShared, Shared, SharedType};
pub use shutdown::Shutdown;
pub use source::{End, Ended, LocalSource, Maintained, SharedLeased, WorkSource};
pub use worker::{BuildError, RunSummary, Worker, WorkerBuilder};
