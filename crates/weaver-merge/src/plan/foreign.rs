//! Changes of the base outside the queue: the tip is not where the chain ends.

use weaver_core::time::Timestamp;

use super::{Observations, Plan};
use crate::domain::{OnForeign, PauseCause};

/// `accepted_by` of a link that was accepted by the setting. Signed: must not change.
const BY_SETTING: &str = "on_foreign = accept";

impl Plan {
    /// Accepts the change by setting, or pauses; true if accepted. A rewound base is never accepted by
    /// setting: it has lost landings.
    pub(super) fn handle_foreign_move(&mut self, seen: &Observations, now: Timestamp) -> bool {
        let Some(moved) = &seen.foreign else { return false };
        if seen.on_foreign == OnForeign::Accept && !moved.is_back() {
            self.queue.accept(moved.clone(), BY_SETTING.to_owned());
            return true;
        }
        let (base, what) = (&self.queue.base_branch, moved.describe());
        let remedy =
            format!("undo it with git, or accept it with `weaver merge resume --accept {}`", moved.to);
        let (cause, reason) = if moved.is_back() {
            let reason = format!("`{base}` was rewound and lost landings: from {what}; {remedy}");
            (PauseCause::MovedBack, reason)
        } else {
            (
                PauseCause::Foreign,
                format!("`{base}` was changed outside this queue, untested: from {what}; {remedy}"),
            )
        };
        self.queue.pause_for(cause, reason, now);
        false
    }
}
