//! A cluster of nodes over one shared store (seed 004, section 4): one node leads, and assigns the due tasks
//! of assign queues to workers. The store is the arbiter: a leader's writes carry its epoch, and are refused
//! once another node was elected.
//!
//! ```text
//! node.rs      the loop of a node: heartbeat, look, then lead or try to
//! term.rs      a term: elected, confirmed by each heartbeat, over when it could not be confirmed in time
//! lead.rs      a leader's turn: takes assignments back, assigns what is due
//! ```
//!
//! The rules are in [`weaver_core::cluster`]. Nodes without a leader are in `weaver-runtime`: every worker's
//! maintenance releases what no leader assigns.

mod lead;
mod node;
mod term;

pub use node::{ClusterNode, NodeOptions};
