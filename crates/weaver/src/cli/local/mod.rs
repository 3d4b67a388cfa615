//! Local servers: the Unix socket that gives their user and root admin access, and how a command finds it.
//!
//! ```text
//! weaver serve ──▶ socket  $XDG_RUNTIME_DIR/weaver/7117.sock            the kernel says who connects
//!             ├──▶ registration  $XDG_STATE_HOME/weaver/servers/….json   address, socket, store
//!             └──▶ process lock  $XDG_STATE_HOME/weaver/workers/….lock   free: its leases are lost
//! weaver tasks list ──▶ registrations of this user that answer ──▶ socket
//! ```

mod places;
mod registration;
mod socket;
mod workers;

pub(crate) use places::Places;
pub(crate) use registration::Registration;
pub(crate) use socket::LocalSocket;
pub(crate) use workers::LocalWorkers;
