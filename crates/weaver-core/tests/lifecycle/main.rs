//! The state machine, from outside: `admit`, `decide`, `apply`, `renew`.
//!
//! - `dispatch`, `ends`, `fence`: one test per rule, to be read as documentation;
//! - `square`: every state × every command, against the table;
//! - `properties*`: random lives of one task, against what section 3 of the design promises.

mod dispatch;
mod ends;
mod explore;
mod fence;
mod life;
mod plan;
mod properties;
mod properties_budget;
mod properties_fence;
mod square;
