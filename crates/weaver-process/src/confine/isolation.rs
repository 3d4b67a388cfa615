//! The confinement of all commands of one kind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Confinement, Confiner, Purpose, Rules, User};

/// A confiner and its rules. The default has no confiner and is not unconfined: every command is refused.
#[derive(Debug, Clone, Default)]
pub struct Isolation {
    /// Builds the sandboxes; `None`: this program has no guard, and a command outlives it if it is killed.
    pub confiner: Option<Arc<Confiner>>,
    /// The operator's rules for these commands.
    pub rules: Rules,
}

impl Isolation {
    /// Neither sandbox nor guard: for commands that are as trusted as this program.
    pub fn none() -> Self {
        Self { confiner: None, rules: Rules { unconfined: true, ..Rules::default() } }
    }

    /// The same confiner with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: Rules) -> Self {
        Self { confiner: self.confiner.clone(), rules }
    }

    /// The binary of the guard, for [`ProcessSpec::guard`](crate::ProcessSpec::guard).
    pub fn guard(&self) -> Option<PathBuf> {
        self.confiner.as_ref().map(|confiner| confiner.guard().to_owned())
    }

    /// The user of a command whose directory belongs to `owner`; `None`: this process's user.
    pub fn user_for(&self, owner: Option<User>) -> Option<User> {
        let confiner = self.confiner.as_ref().filter(|_| !self.rules.unconfined)?;
        confiner.user_for(owner)
    }

    /// The confinement of a command with the writable directories `own`; `None` if its rules say
    /// `unconfined`.
    ///
    /// # Errors
    /// As [`Confiner::confinement`], and if there is no confiner.
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
            None => Err("confinement needs a guard, and this program has none; `unconfined = true` in the operator's rules \
                 runs commands without"
                .to_owned()),
        }
    }
}
