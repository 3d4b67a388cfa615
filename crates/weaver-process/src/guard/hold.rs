//! A process that creates a user namespace and holds it until it is no longer needed
//! (`confine/linux/owners.rs`).

use std::io::{Read, Write};

use super::ends::CANNOT_RUN;
use crate::confine::linux::namespaces;

pub(super) fn main() -> u8 {
    if namespaces::unshare_for_mapping().is_err() {
        return CANNOT_RUN;
    }
    // The other end may be closed already: then there is nothing to wait for.
    let _ = std::io::stdout().write_all(b"!").and_then(|()| std::io::stdout().flush());
    let _ = std::io::stdin().read(&mut [0]);
    0
}
