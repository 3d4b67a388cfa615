//! `merge-tree --write-tree` needs git 2.38.

use crate::forge::ForgeError;

const OLDEST: (u32, u32) = (2, 38);

pub(super) fn check(said: &[u8]) -> Result<(), ForgeError> {
    let said = String::from_utf8_lossy(said);
    let mut numbers = said.trim().trim_start_matches("git version ").split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(ForgeError::Unavailable(format!("git 2.38 or newer is required; found {}", said.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_version_without_merge_tree_is_refused() {
        for good in ["git version 2.38.0", "git version 2.47.3\n", "git version 3.0.1 (Apple Git-1)"] {
            assert!(check(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["git version 2.37.9", "git version 1.99.1", "", "gut"] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
