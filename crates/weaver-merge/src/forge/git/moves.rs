//! Changes of a branch outside the queue.

use std::collections::BTreeSet;

use super::command::{Git, printable};
use super::{branch_ref, oid};
use crate::domain::Oid;
use crate::forge::{ForgeError, Moved};

/// Commits and reflog entries that are searched for identities.
const LOOKED_AT_MAX: &str = "--max-count=1000";
/// Identities that are listed.
const NAMED_MAX: usize = 10;

pub(super) async fn moved(git: &Git, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError> {
    let range = format!("{from}...{to}");
    let counted = git.run_ok(&["rev-list", "--count", "--left-right", &range]).await?;
    let mut counts = counted.split_whitespace().map(|count| count.parse().unwrap_or(0));
    let (lost, commits) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    let new = format!("{from}..{to}");
    let log = ["log", LOOKED_AT_MAX, "--format=author %an <%ae>%ncommitter %cn <%ce>", &new];
    let mut by: BTreeSet<String> = git.run_ok(&log).await?.lines().map(printable).collect();
    by.extend(pushers(git, branch, from).await?);
    Ok(Moved { commits, lost, by: by.into_iter().take(NAMED_MAX).collect() })
}

/// Identities in the reflog since the branch was at `from`, if the repository keeps one.
async fn pushers(git: &Git, branch: &str, from: &Oid) -> Result<Vec<String>, ForgeError> {
    let name = branch_ref(branch);
    let words = ["log", "--walk-reflogs", LOOKED_AT_MAX, "--format=%H moved by %gn <%ge>", &name];
    let output = git.run(&words).await?;
    // Most bare repositories keep none.
    if output.code != Some(0) {
        return Ok(Vec::new());
    }
    let text = output.text();
    let since = text.lines().take_while(|line| !line.starts_with(from.as_str()));
    Ok(since.filter_map(|line| Some(printable(line.split_once(' ')?.1))).collect())
}

pub(super) async fn introduced_by(git: &Git, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError> {
    if !git.is_ancestor(commit, tip).await? {
        return Ok(None);
    }
    let range = format!("{commit}..{tip}");
    let listed = git.run_ok(&["rev-list", "--first-parent", &range]).await?;
    let newest_first = listed.lines().map(oid).collect::<Result<Vec<_>, _>>()?;
    // Along first parents, the newest commits contain it: bisection finds the oldest of them.
    let (mut has, mut has_not) = (0, newest_first.len());
    while has + 1 < has_not {
        let middle = usize::midpoint(has, has_not);
        if git.is_ancestor(commit, &newest_first[middle]).await? {
            has = middle;
        } else {
            has_not = middle;
        }
    }
    let Some(first) = newest_first.into_iter().nth(has) else { return Ok(Some(commit.clone())) };
    // On the first-parent history it is its own introduction, not a merge of it.
    let parent = git.run(&["rev-parse", "--verify", "--quiet", &format!("{first}^1")]).await?;
    Ok(Some(if parent.text() == commit.as_str() { commit.clone() } else { first }))
}
