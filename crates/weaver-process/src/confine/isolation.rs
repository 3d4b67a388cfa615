//! How commands of one kind are kept apart from us.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Confinement, Confiner, Purpose, Rules, User};

/// Who confines a command, and by which rules. The default confines and has nothing to do it with: every
/// command is refused.
#[derive(Debug, Clone, Default)]
pub struct Isolation {
    /// What makes the cells; `None`: this program has no guard, and a command outlives it if it is killed.
    pub confiner: Option<Arc<Confiner>>,
    /// What commands may see and do.
    pub rules: Rules,
}

impl Isolation {
    /// Neither cell nor guard, for commands that are as trusted as this program.
    pub fn none() -> Self {
        Self { confiner: None, rules: Rules { unconfined: true, ..Rules::default() } }
    }

    /// The same confiner with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: Rules) -> Self {
        Self { confiner: self.confiner.clone(), rules }
    }

    /// The binary that stands guard, for [`ProcessSpec::guard`](crate::ProcessSpec::guard).
    pub fn guard(&self) -> Option<PathBuf> {
        self.confiner.as_ref().map(|confiner| confiner.guard().to_owned())
    }

    /// The kernel user of a command whose directory belongs to `owner`; `None`: that of this process.
    pub fn user_for(&self, owner: Option<User>) -> Option<User> {
        let confiner = self.confiner.as_ref().filter(|_| !self.rules.unconfined)?;
        confiner.user_for(owner)
    }

    /// The cell of a command that works in `own`; `None` if the operator trusts it.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn confinement(
        &self,
        purpose: &Purpose,
        own: &[PathBuf],
        home: &Path,
        user: Option<User>,
    ) -> Result<Option<Confinement>, String> {
        match &self.confiner {
            Some(confiner) => confiner.confinement(&self.rules, purpose, own, home, user),
            None if self.rules.unconfined => Ok(None),
            None => Err("commands are confined by a guard, and this program has none; `unconfined = true` in the operator's \
                 rules runs them without"
                .to_owned()),
        }
    }
}
