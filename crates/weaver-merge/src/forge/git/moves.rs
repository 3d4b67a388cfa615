//! What others did to a branch.

use std::collections::BTreeSet;

use super::command::{Git, printable};
use super::{branch_ref, oid};
use crate::domain::Oid;
use crate::forge::{ForgeError, Moved};

/// How many commits and moves are looked at for who made them.
const LOOKED_AT_MAX: &str = "--max-count=1000";
/// How many of those who made them are named.
const NAMED_MAX: usize = 10;

pub(super) async fn moved(git: &Git, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError> {
    let range = format!("{from}...{to}");
    let counted = git.good(&["rev-list", "--count", "--left-right", &range]).await?;
    let mut counts = counted.split_whitespace().map(|count| count.parse().unwrap_or(0));
    let (lost, commits) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    let new = format!("{from}..{to}");
    let log = ["log", LOOKED_AT_MAX, "--format=author %an <%ae>%ncommitter %cn <%ce>", &new];
    let mut by: BTreeSet<String> = git.good(&log).await?.lines().map(printable).collect();
    by.extend(pushers(git, branch, from).await?);
    Ok(Moved { commits, lost, by: by.into_iter().take(NAMED_MAX).collect() })
}

/// Who moved it since it was there, if the repository keeps a reflog.
async fn pushers(git: &Git, branch: &str, from: &Oid) -> Result<Vec<String>, ForgeError> {
    let name = branch_ref(branch);
    let words = ["log", "--walk-reflogs", LOOKED_AT_MAX, "--format=%H moved by %gn <%ge>", &name];
    let asked = git.run(&words).await?;
    // Most bare repositories keep none.
    if asked.code != Some(0) {
        return Ok(Vec::new());
    }
    let text = asked.text();
    let since = text.lines().take_while(|line| !line.starts_with(from.as_str()));
    Ok(since.filter_map(|line| Some(printable(line.split_once(' ')?.1))).collect())
}

pub(super) async fn brought_by(git: &Git, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError> {
    if !git.is_ancestor(commit, tip).await? {
        return Ok(None);
    }
    let range = format!("{commit}..{tip}");
    let listed = git.good(&["rev-list", "--first-parent", &range]).await?;
    let newest_first = listed.lines().map(oid).collect::<Result<Vec<_>, _>>()?;
    // Along first parents, those that have it are the newest: the last of them is found by halving.
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
    // On the branch's own history it came by itself, and not by a merge of it.
    let parent = git.run(&["rev-parse", "--verify", "--quiet", &format!("{first}^1")]).await?;
    Ok(Some(if parent.text() == commit.as_str() { commit.clone() } else { first }))
}
