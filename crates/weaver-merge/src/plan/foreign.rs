//! A base that is not where the chain says.

use weaver_core::time::Timestamp;

use super::{Observations, Plan};
use crate::domain::{OnForeign, PauseCause};

/// What a link says of who accepted it, if nobody had to.
const BY_SETTING: &str = "on_foreign = accept";

impl Plan {
    /// Accepts what others brought, or pauses; says whether it was accepted. A base that was moved back is
    /// never accepted by a setting: what landed is gone from it.
    pub(super) fn take_foreign(&mut self, seen: &Observations, now: Timestamp) -> bool {
        let Some(moved) = &seen.foreign else { return false };
        if seen.on_foreign == OnForeign::Accept && !moved.is_back() {
            self.queue.accept(moved.clone(), BY_SETTING.to_owned());
            return true;
        }
        let (base, what) = (&self.queue.base_branch, moved.describe());
        let way_out =
            format!("move it back with git, or accept it with `weaver merge resume --accept {}`", moved.to);
        let (cause, reason) = if moved.is_back() {
            let reason =
                format!("`{base}` no longer has what landed on it: it was moved from {what}; {way_out}");
            (PauseCause::MovedBack, reason)
        } else {
            (
                PauseCause::Foreign,
                format!("`{base}` was moved outside of this queue, untested: from {what}; {way_out}"),
            )
        };
        self.queue.pause_for(cause, reason, now);
        false
    }
}
