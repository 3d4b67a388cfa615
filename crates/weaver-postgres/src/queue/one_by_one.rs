//! Fallback for a batch that fails because of a bad row: its members are written one by one, so that a bad
//! row fails no other.

use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Transition;
use weaver_core::queue::Committed;

use super::commit::End;
use crate::PostgresStore;
use crate::error::{Result, StoreFault};
use crate::row::undecodable;

impl PostgresStore {
    /// Ends the members of a failed batch one by one. A member that the server refuses is logged and stale.
    pub(super) async fn end_each(
        &self,
        kind: Option<End>,
        members: &[&Transition],
        fault: StoreFault,
    ) -> Result<Vec<i64>> {
        let [member] = members else {
            let mut ended = Vec::with_capacity(members.len());
            for member in members {
                ended.extend(
                    match self.retry_transient(|| self.end(kind, std::slice::from_ref(member))).await {
                        Err(fault) if fault.is_about_data() => {
                            refused_by_data(&member.key, fault);
                            Vec::new()
                        }
                        ids => ids?,
                    },
                );
            }
            return Ok(ended);
        };
        refused_by_data(&member.key, fault);
        Ok(Vec::new())
    }

    /// Transitions in one transaction; one by one if the contents of a row make it fail.
    pub(super) async fn commit_moves_each(&self, batch: &[Transition]) -> Result<Vec<Committed>> {
        let fault = match self.retry_transient(|| self.commit_moves(batch)).await {
            Err(fault) if fault.is_about_data() => fault,
            answers => return answers,
        };
        let [transition] = batch else {
            let mut answers = Vec::with_capacity(batch.len());
            for transition in batch {
                let alone = std::slice::from_ref(transition);
                answers.extend(match self.retry_transient(|| self.commit_moves(alone)).await {
                    Err(fault) if fault.is_about_data() => {
                        refused_by_data(&transition.key, fault);
                        vec![Committed::Stale]
                    }
                    answers => answers?,
                });
            }
            return Ok(answers);
        };
        refused_by_data(&transition.key, fault);
        Ok(vec![Committed::Stale])
    }
}

/// Logs a row that can be read but not written: it stays unchanged, and its transition is stale.
fn refused_by_data(key: &TaskKey, fault: StoreFault) {
    let reason = undecodable(fault);
    tracing::error!(task = %key, %reason, "cannot write this task because of its stored data");
}
