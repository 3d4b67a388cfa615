//! The section `[handlers]`: the operator's policy of the built-in handlers, in the handlers' own format.

use std::path::Path;

use serde::Deserialize;
use weaver_handlers::BuiltIn;

use crate::config::file::wrong;
use crate::config::nearest::nearest;
use crate::exit::Failure;

pub(crate) const HANDLERS: &str = "handlers";

#[derive(Deserialize)]
struct Section {
    handlers: BuiltIn,
}

pub(super) fn read(path: &Path, text: &str) -> Result<BuiltIn, Failure> {
    match toml::from_str::<Section>(text) {
        Ok(section) => Ok(section.handlers),
        Err(error) => Err(explained(path, text, &error)),
    }
}

/// An error of a section that is read as a whole, with the nearest known name.
pub(super) fn explained(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let failure = wrong(path, text, error);
    match meant(error.message()) {
        Some(meant) => {
            Failure { message: format!("{}: did you mean `{meant}`?", failure.message), ..failure }
        }
        None => failure,
    }
}

/// Of "unknown field `a`, expected one of `b`, `c`" the nearest known field; also for variants.
fn meant(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("unknown field").or_else(|| message.strip_prefix("unknown variant"))?;
    let mut names = rest.split('`').skip(1).step_by(2);
    nearest(names.next()?, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        read(Path::new("weaver.toml"), text).unwrap_err().message
    }

    #[test]
    fn a_policy_is_read_and_a_typo_in_it_is_refused_with_its_line_and_the_nearest() {
        let text = "[handlers.http]\nallow_networks = [\"127.0.0.0/8\"]\n";
        assert_eq!(read(Path::new("weaver.toml"), text).unwrap().http.allow_networks.len(), 1);
        let said = failure("[handlers.http]\nalow_networks = []\n");
        assert!(said.starts_with("weaver.toml:2: unknown field `alow_networks`"), "{said}");
        assert!(said.ends_with("did you mean `allow_networks`?"), "{said}");
    }
}
