//! A batch of which the server refuses a row: its members one by one, so that one bad row is one bad row.

use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Transition;
use weaver_core::queue::Committed;

use super::commit::End;
use crate::PostgresStore;
use crate::error::{Outcome, Trouble};
use crate::row::undecodable;

impl PostgresStore {
    /// A row of the batch makes no sense to the server: the others are ended one by one. What the server
    /// refuses by itself is logged, and stale.
    pub(super) async fn end_each(
        &self,
        kind: Option<End>,
        members: &[&Transition],
        trouble: Trouble,
    ) -> Outcome<Vec<i64>> {
        let [member] = members else {
            let mut ended = Vec::with_capacity(members.len());
            for member in members {
                ended.extend(match self.again(|| self.end(kind, std::slice::from_ref(member))).await {
                    Err(trouble) if trouble.is_about_data() => {
                        refused_by_data(&member.key, trouble);
                        Vec::new()
                    }
                    ids => ids?,
                });
            }
            return Ok(ended);
        };
        refused_by_data(&member.key, trouble);
        Ok(Vec::new())
    }

    /// Moves in one transaction; one by one if a row makes no sense to the server.
    pub(super) async fn commit_moves_each(&self, batch: &[Transition]) -> Outcome<Vec<Committed>> {
        let trouble = match self.again(|| self.commit_moves(batch)).await {
            Err(trouble) if trouble.is_about_data() => trouble,
            answers => return answers,
        };
        let [transition] = batch else {
            let mut answers = Vec::with_capacity(batch.len());
            for transition in batch {
                let alone = std::slice::from_ref(transition);
                answers.extend(match self.again(|| self.commit_moves(alone)).await {
                    Err(trouble) if trouble.is_about_data() => {
                        refused_by_data(&transition.key, trouble);
                        vec![Committed::Stale]
                    }
                    answers => answers?,
                });
            }
            return Ok(answers);
        };
        refused_by_data(&transition.key, trouble);
        Ok(vec![Committed::Stale])
    }
}

/// Its row can be read and not written, because of what is stored beside it: it stays as it is, and its
/// transition is stale.
fn refused_by_data(key: &TaskKey, trouble: Trouble) {
    tracing::error!(task = %key, why = %undecodable(trouble), "a task cannot be written; others go on");
}
