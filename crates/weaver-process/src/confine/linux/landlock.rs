//! Landlock: enforces the mounts' restrictions once more, and restricts what mounts cannot: TCP ports,
//! signals, abstract sockets.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::mounts::SYSTEM;
use crate::confine::{Confinement, Mode, Network};

/// Best effort: an older kernel enforces less, except where a rule requires it.
const WANTED: ABI = ABI::V6;
/// Directories that are readable besides the system in the Landlock-only modes.
const LANDLOCK_ONLY: &[&str] = &["/etc", "/proc", "/sys", "/run/systemd/resolve"];
const DEVICES: &[&str] = &["/dev"];

/// Fails if this kernel lacks a feature, for `weaver doctor`.
pub(crate) fn kernel_support() -> Result<(), String> {
    let scopes = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::ConnectTcp))
        .and_then(|ruleset| ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket));
    let basics = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    match (basics, scopes.and_then(Ruleset::create)) {
        (_, Ok(_)) => Ok(()),
        (Ok(_), Err(_)) => {
            Err("Landlock is older than ABI 6 (Linux 6.12): signals and abstract sockets of the host are \
            protected by namespaces only, and `ports` may not be enforced"
                .to_owned())
        }
        (Err(error), _) => {
            Err(format!("Landlock is not available ({error}): files are protected by mounts only"))
        }
    }
}

pub(super) fn restrict(confinement: &Confinement) -> Result<(), String> {
    let failed = |error: landlock::RulesetError| format!("Landlock: {error}");
    let is_alone = confinement.mode != Mode::Namespaces;
    let ports = match &confinement.network {
        Network::On { ports } => Some(ports.as_slice()),
        Network::Off => None,
    };
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(WANTED)).map_err(failed)?;
    if ports.is_some() {
        // A kernel that cannot restrict ports must not pretend to.
        ruleset = ruleset
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)
            .map_err(|_| "`network = \"on\"` needs Landlock with TCP rules (Linux 6.7): set `network = \"off\"`, or `unconfined = true`".to_owned())?
            .set_compatibility(CompatLevel::BestEffort);
    }
    let scopes = Scope::Signal | Scope::AbstractUnixSocket;
    let mut created = ruleset.scope(scopes).and_then(Ruleset::create).map_err(failed)?;
    created = paths(created, confinement, is_alone).map_err(failed)?;
    for port in ports.unwrap_or_default() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    if ports.is_some() {
        // Ephemeral ports only, so that no well-known service can be impersonated.
        created = created.add_rule(NetPort::new(0, AccessNet::BindTcp)).map_err(failed)?;
    }
    let status = created.restrict_self().map_err(failed)?;
    if is_alone && status.ruleset == RulesetStatus::NotEnforced {
        return Err("this kernel has no Landlock, and this mode has no other confinement; use namespaces, or `unconfined = true`".to_owned());
    }
    Ok(())
}

fn paths(
    ruleset: RulesetCreated,
    confinement: &Confinement,
    is_alone: bool,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let read = AccessFs::from_read(WANTED);
    let all = AccessFs::from_all(WANTED);
    let Confinement { read_only, writable, home, .. } = confinement;
    let mut rules: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    if is_alone {
        let system = SYSTEM.iter().chain(LANDLOCK_ONLY);
        rules.extend(system.map(|path| (PathBuf::from(path), read)));
        rules.extend(read_only.iter().map(|path| (path.clone(), read)));
    } else {
        // The sandbox's root has visible paths only.
        rules.push((PathBuf::from("/"), read));
        rules.extend(["/tmp", "/var", "/run"].map(|path| (PathBuf::from(path), all)));
        rules.push((home.clone(), all));
        // Programs write their own `oom_score_adj` and the like.
        rules.push((PathBuf::from("/proc"), read | AccessFs::WriteFile));
    }
    rules.extend(DEVICES.iter().map(|path| (PathBuf::from(path), all)));
    rules.extend(writable.iter().map(|path| (path.clone(), all)));
    rules.into_iter().try_fold(ruleset, |ruleset, (path, access)| add(ruleset, &path, access))
}

/// A missing path needs no rule.
fn add(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(opened) => {
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(WANTED) };
            ruleset.add_rule(PathBeneath::new(opened, access))
        }
        Err(_) => Ok(ruleset),
    }
}
