//! The limit on open files (`RLIMIT_NOFILE`): every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are not connections: the store's, the log's, children's, a margin.
const OTHER_FILES: u64 = 512;

/// Raises the soft limit on open files to the hard one, which needs no privilege. Returns how many
/// connections that allows; `None`: unlimited. Services often start with a soft limit of 1,024.
pub fn raise_file_limit() -> Option<usize> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match (current, maximum) {
        (Some(current), Some(maximum)) if current >= maximum => Ok(()),
        _ => setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }),
    };
    if let Err(error) = raised {
        tracing::warn!(%error, ?current, "raising the limit on open files failed");
    }
    let now = getrlimit(Resource::Nofile).current?;
    Some(usize::try_from(now.saturating_sub(OTHER_FILES).max(64)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let lower = hard.map(|hard| hard.min(256)).or(Some(256));
        setrlimit(Resource::Nofile, Rlimit { current: lower, maximum: hard }).unwrap();
        let connections = raise_file_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
        assert_eq!(connections.is_none(), hard.is_none());
    }
}
