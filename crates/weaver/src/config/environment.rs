//! Settings from `WEAVER_*` variables and systemd credentials.

use std::path::{Path, PathBuf};

use crate::config::keys::{self, Key};
use crate::config::kind::Kind;
use crate::config::nearest::nearest;
use crate::exit::{Exit, Failure};

const PREFIX: &str = "WEAVER_";
const FILE_VARIABLE: &str = "WEAVER_CONFIG";
/// A variable with this suffix names a file with the value, so that a secret need not be in the environment.
const IN_FILE: &str = "_FILE";
/// Set by systemd for `LoadCredential=`; files called `weaver.KEY` are settings.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// A variable within this edit distance of a setting's is a typo, not another program's.
const TYPO_DISTANCE_MAX: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) file: Option<PathBuf>,
    pub(crate) values: Vec<(&'static Key, String, String)>,
    pub(crate) unknown: Vec<String>,
    /// Files that secrets were read from.
    pub(crate) files: Vec<PathBuf>,
}

pub(crate) fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Environment, Failure> {
    let known: Vec<(String, &'static Key)> = keys::ALL.iter().map(|key| (key.variable(), *key)).collect();
    let mut read = Environment::default();
    for (name, value) in variables {
        if name == CREDENTIALS {
            read.credentials(Path::new(&value))?;
        }
        if !name.starts_with(PREFIX) {
            continue;
        }
        if name == FILE_VARIABLE {
            read.file = Some(PathBuf::from(value));
        } else if let Some((_, key)) = known.iter().find(|(variable, _)| *variable == name) {
            read.values.push((key, value, name));
        } else if let Some((variable, key)) = in_file(&name, &known) {
            read.secret(key, Path::new(&value), variable)?;
        } else if let Some(meant) = typo_of(&name, &known) {
            let message = format!("variable {name} is not a setting: did you mean {meant}?");
            return Err(Failure::new(Exit::Usage, message)
                .next("rename or unset it; `weaver config show` lists every setting"));
        } else {
            read.unknown.push(name);
        }
    }
    read.unknown.sort();
    Ok(read)
}

/// Secrets, and the store, whose URL may hold a password.
fn may_be_in_file(key: &Key) -> bool {
    key.kind == Kind::Secret || *key == *keys::STORE
}

fn in_file<'a>(name: &str, known: &'a [(String, &'static Key)]) -> Option<(&'a str, &'static Key)> {
    let base = name.strip_suffix(IN_FILE)?;
    let (variable, key) = known.iter().find(|(variable, key)| variable == base && may_be_in_file(key))?;
    Some((variable, key))
}

impl Environment {
    fn secret(&mut self, key: &'static Key, file: &Path, variable: &str) -> Result<(), Failure> {
        let text = std::fs::read_to_string(file).map_err(|error| Failure::io(file, &error))?;
        self.values.push((key, text.trim().to_owned(), format!("{variable}{IN_FILE} ({})", file.display())));
        self.files.push(file.to_owned());
        Ok(())
    }

    fn credentials(&mut self, directory: &Path) -> Result<(), Failure> {
        for key in keys::ALL.iter().copied().filter(|key| may_be_in_file(key)) {
            let file = directory.join(format!("weaver.{}", key.name));
            if file.is_file() {
                self.secret(key, &file, &key.variable())?;
            }
        }
        Ok(())
    }
}

fn typo_of<'a>(name: &str, known: &'a [(String, &'static Key)]) -> Option<&'a str> {
    let names = known.iter().map(|(variable, _)| variable.as_str()).chain([FILE_VARIABLE]);
    nearest(name, names).filter(|meant| strsim::damerau_levenshtein(name, meant) <= TYPO_DISTANCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(name: &str) -> Result<Environment, Failure> {
        read([(name.to_owned(), "x".to_owned())])
    }

    #[test]
    fn a_typo_is_refused_with_the_nearest_variable() {
        let failure = read_one("WEAVER_STROE").unwrap_err();
        assert!(failure.message.contains("did you mean WEAVER_STORE?"), "{failure}");
    }

    #[test]
    fn a_secret_is_read_from_the_file_that_a_variable_or_systemd_names() {
        let directory = std::env::temp_dir().join(format!("weaver-credentials-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("weaver.token");
        std::fs::write(&file, "wv_secret\n").unwrap();
        let path = |path: &Path| path.display().to_string();
        for variable in [("WEAVER_TOKEN_FILE", path(&file)), (CREDENTIALS, path(&directory))] {
            let read = read([(variable.0.to_owned(), variable.1)]).unwrap();
            let [(key, value, origin)] = &read.values[..] else { panic!("{:?}", read.values) };
            assert_eq!((*key, value.as_str()), (keys::TOKEN, "wv_secret"));
            assert!(origin.contains("weaver.token"), "{origin}");
            assert_eq!(read.files, std::slice::from_ref(&file));
        }
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(read_one("WEAVER_TOKEN_FILE").unwrap_err().message.contains('x'), "there is no file `x`");
        assert!(read_one("WEAVER_NAMESPACE_FILE").is_ok_and(|read| read.values.is_empty()), "no secret");
    }

    #[test]
    fn variables_of_other_programs_are_reported_and_not_refused() {
        // Kubernetes sets these for a service called `weaver`.
        for name in ["WEAVER_SERVICE_HOST", "WEAVER_PORT_7117_TCP_ADDR", "WEAVER_SERVICE_PORT"] {
            assert_eq!(read_one(name).unwrap().unknown, [name]);
        }
        assert!(read_one("PATH").unwrap().unknown.is_empty());
    }
}
