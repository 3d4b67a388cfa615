//! The rules of a cluster of nodes (seed 004, section 4): who leads, which worker gets a task, and when an
//! assignment is taken back. Pure: `weaver-cluster` has the loops and the store calls.
//!
//! ```text
//! documents   what nodes write: one leader (its version is the epoch), one heartbeat per node
//! watch       what a node concludes from reading them, by its own monotonic clock
//! orphans     when an assignment that was not started is taken from its worker
//! plan        which worker gets which due task
//! workers     what an observer has seen of the workers
//! ```

mod documents;
mod look;
mod orphans;
mod plan;
mod settings;
mod watch;
mod workers;

pub use documents::{LEADER_KIND, LeaderBody, NODE_KIND, NodeBody, body, leader_key, node_key, parse};
pub use look::look;
pub use orphans::{Fitness, fitness, orphan_cause, taken_from};
pub use plan::{WorkerRoom, place, requests};
pub use settings::{AssignFallback, ClusterSettings};
pub use watch::{LeaderWatch, Leadership, Seen};
pub use workers::{Workers, worker_of};
