//! Entering the sandbox.

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{landlock, limits, loopback, namespaces, owners, privileges, root};
use crate::confine::{Confinement, Mode, Network};
use crate::secrecy;

/// Confines this process and all its children, irrevocably.
pub(crate) fn enter(confinement: &Confinement) -> Result<(), String> {
    if confinement.mode == Mode::Namespaces {
        let mapping = owners::received();
        namespaces::unshare_inside(confinement)?;
        if confinement.network == Network::Off {
            loopback::bring_up().map_err(|error| format!("the private loopback interface: {error}"))?;
        }
        root::enter(confinement, mapping.as_ref())?;
    }
    privileges::drop_all(confinement)?;
    limits::set(&confinement.limits)?;
    landlock::restrict(confinement)?;
    // A change of user has reset both.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("PR_SET_PDEATHSIG: {error}"))?;
    secrecy::forbid_inspection();
    Ok(())
}
