//! Which commit of the base last changed a path.

use std::collections::BTreeSet;

use super::command::Git;
use super::oid;
use crate::domain::Oid;
use crate::forge::ForgeError;

/// Commits of the base that are searched.
const LOOKED_AT_MAX: &str = "--max-count=1000";
const COMMIT: &str = "commit ";

/// Along first parents, so that a change counts as the merge that landed it.
pub(super) async fn last_changes(
    git: &Git,
    base: &Oid,
    head: &Oid,
    paths: &[String],
) -> Result<Vec<Oid>, ForgeError> {
    let common = git.run(&["merge-base", base.as_str(), head.as_str()]).await?;
    if common.code != Some(0) {
        // No common history.
        return Ok(Vec::new());
    }
    // Not `head..base`: git then prunes a merge whose first parent `head` contains.
    let new = format!("{}..{base}", oid(&common.text())?);
    let format = format!("--format={COMMIT}%H");
    let log = ["-c", "core.quotePath=false", "--literal-pathspecs", "log", "--first-parent", "--name-only"];
    let mut words = log.to_vec();
    words.extend([LOOKED_AT_MAX, &format, &new, "--"]);
    words.extend(paths.iter().map(String::as_str));
    let shown = git.run_ok(&words).await?;
    let mut wanted: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    let (mut found, mut current) = (Vec::new(), None);
    for line in shown.lines() {
        if let Some(commit) = line.strip_prefix(COMMIT) {
            current = Some(oid(commit)?);
        } else if let Some(commit) = current.as_ref().filter(|_| wanted.remove(line))
            && found.last() != Some(commit)
        {
            found.push(commit.clone());
        }
    }
    Ok(found)
}
