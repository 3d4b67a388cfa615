//! What a task is: the data producers submit ([`NewTask`]), the part that never changes ([`TaskSpec`]), and
//! the record a store keeps ([`TaskRecord`]).
//!
//! ```text
//! NewTask ──validate──▶ TaskSpec ──admit──▶ TaskRecord { spec, state, counters, … }
//! (untrusted text)      (checked, shared)   (moved only by lifecycle::decide)
//! ```

mod attempts;
mod defaults;
mod dispatch;
mod envelope;
pub mod fields;
mod new;
mod record;
mod spec;
mod state;
mod valid;

pub use attempts::{ATTEMPTS_KEPT, AttemptOutcome, AttemptRecord, Attempts};
pub use defaults::{MAX_ATTEMPTS_DEFAULT, MAX_LOSSES_DEFAULT, PROMPT_TASK_TYPE, TypeDefaults};
pub use dispatch::{Dispatch, DispatchFilter};
pub use envelope::{ContentType, TaskEnvelope};
pub use new::NewTask;
pub use record::{Assignment, Continuation, HeldLease, Progress, ReadyBy, TaskRecord};
pub use spec::{Labels, Origin, Priority, TaskSpec, TraceContext, UniqueKey};
pub use state::{CancelReason, Cause, TaskState};
pub use valid::{Start, ValidTask, validate_batch};
