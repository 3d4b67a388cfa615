//! Settings from `WEAVER_*`.

use std::path::PathBuf;

use crate::config::keys::{self, Key};
use crate::config::nearest::nearest;
use crate::exit::{Exit, Failure};

const PREFIX: &str = "WEAVER_";
const FILE_VARIABLE: &str = "WEAVER_CONFIG";

/// A variable this close to a setting's is a slip, not another program's.
const SLIP_MAX: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) file: Option<PathBuf>,
    pub(crate) values: Vec<(&'static Key, String, String)>,
    pub(crate) unknown: Vec<String>,
}

pub(crate) fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Environment, Failure> {
    let known: Vec<(String, &'static Key)> = keys::ALL.iter().map(|key| (key.variable(), *key)).collect();
    let mut read = Environment::default();
    for (name, value) in variables {
        if !name.starts_with(PREFIX) {
            continue;
        }
        if name == FILE_VARIABLE {
            read.file = Some(PathBuf::from(value));
        } else if let Some((_, key)) = known.iter().find(|(variable, _)| *variable == name) {
            read.values.push((key, value, name));
        } else if let Some(meant) = slip_of(&name, &known) {
            let message = format!("the variable {name} is no setting: did you mean {meant}?");
            return Err(Failure::new(Exit::Usage, message)
                .next("rename or unset it; `weaver config show` lists every setting"));
        } else {
            read.unknown.push(name);
        }
    }
    read.unknown.sort();
    Ok(read)
}

fn slip_of<'a>(name: &str, known: &'a [(String, &'static Key)]) -> Option<&'a str> {
    let names = known.iter().map(|(variable, _)| variable.as_str()).chain([FILE_VARIABLE]);
    nearest(name, names).filter(|meant| strsim::damerau_levenshtein(name, meant) <= SLIP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(name: &str) -> Result<Environment, Failure> {
        read([(name.to_owned(), "x".to_owned())])
    }

    #[test]
    fn a_slip_is_refused_with_the_variable_that_was_meant() {
        let failure = read_one("WEAVER_STROE").unwrap_err();
        assert!(failure.message.contains("did you mean WEAVER_STORE?"), "{failure}");
    }

    #[test]
    fn variables_of_other_programs_are_told_and_not_refused() {
        // Kubernetes sets these for a service called `weaver`.
        for name in ["WEAVER_SERVICE_HOST", "WEAVER_PORT_7117_TCP_ADDR", "WEAVER_SERVICE_PORT"] {
            assert_eq!(read_one(name).unwrap().unknown, [name]);
        }
        assert!(read_one("PATH").unwrap().unknown.is_empty());
    }
}
