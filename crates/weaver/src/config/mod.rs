//! Settings: `weaver.toml` < `WEAVER_*` < flags. Every value knows where it came from.

mod environment;
mod file;
mod handlers;
pub(crate) mod keys;
mod kind;
mod limit_keys;
mod nearest;
mod profiles;
mod templates;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use crate::config::kind::parse_span;

use weaver_server::handlers::BuiltIn;

use crate::config::keys::Key;
use crate::config::kind::Kind;
use crate::config::profiles::Profiles;
use crate::config::templates::Templates;
use crate::exit::{Exit, Failure};

/// The file that is read if no other is named.
pub(crate) const FILE: &str = "weaver.toml";

/// Where a value came from; later ones win.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(&'static str),
}

impl Origin {
    /// A word for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line } => write!(out, "{}:{line}", path.display()),
            Self::Environment(variable) => out.write_str(variable),
            Self::Flag(flag) => out.write_str(flag),
        }
    }
}

/// A value, as text that its kind has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value as others may see it.
    pub(crate) fn shown(&self) -> &str {
        match self.key.kind {
            Kind::Secret if !self.value.is_empty() => "(set, not shown)",
            _ => &self.value,
        }
    }
}

/// What the command line says about settings.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// Key and value of each flag that was given.
    pub(crate) values: Vec<(&'static Key, String)>,
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Vec<Setting>,
    /// What the operator decided about the built-in handlers, and where.
    pub(crate) handlers: (BuiltIn, Origin),
    /// How agents are run, by name, and where that stands.
    pub(crate) profiles: (Profiles, Origin),
    /// Other words for messages about merge queues, and where they stand.
    pub(crate) templates: (Templates, Origin),
    /// Variables that look like settings and are none: other programs use the prefix too (Kubernetes does, for a service
    /// of that name), so they are told and not refused.
    pub(crate) unknown_variables: Vec<String>,
}

impl Config {
    /// What holds if nobody says anything.
    fn defaults() -> Self {
        let defaults = keys::ALL.iter().map(|key| Setting {
            key,
            value: key.default.to_owned(),
            origin: Origin::Default,
        });
        Self {
            file: None,
            settings: defaults.collect(),
            handlers: (BuiltIn::default(), Origin::Default),
            profiles: (Profiles::new(), Origin::Default),
            templates: (Templates::new(), Origin::Default),
            unknown_variables: Vec::new(),
        }
    }

    /// What the flags alone say, to talk as was asked for while the rest cannot be read.
    pub(crate) fn of_flags(flags: &Flags) -> Self {
        let mut config = Self::defaults();
        for (key, value) in &flags.values {
            // A value that is wrong is told when everything is read.
            let _ = config.set(key, value.clone(), Origin::Flag(key.flag.unwrap_or(key.name)));
        }
        config
    }

    /// Reads everything. `environment` is passed in, so that tests need not change the process's own.
    pub(crate) fn load(
        flags: &Flags,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Failure> {
        let mut config = Self::defaults();
        let environment = environment::read(environment)?;
        let named = flags.file.clone().or(environment.file);
        let path = named.clone().unwrap_or_else(|| PathBuf::from(FILE));
        if named.is_some() || path.exists() {
            let content = file::read(&path)?;
            if let Some((policy, line)) = content.handlers {
                config.handlers = (policy, Origin::File { path: path.clone(), line });
            }
            if let Some((profiles, line)) = content.profiles {
                config.profiles = (profiles, Origin::File { path: path.clone(), line });
            }
            if let Some((templates, line)) = content.templates {
                config.templates = (templates, Origin::File { path: path.clone(), line });
            }
            for (key, value, line) in content.values {
                let value = if key.is_place { beside(&path, &value) } else { value };
                config.set(key, value, Origin::File { path: path.clone(), line })?;
            }
            config.file = Some(path);
        }
        for (key, value, variable) in environment.values {
            config.set(key, value, Origin::Environment(variable))?;
        }
        config.unknown_variables = environment.unknown;
        for (key, value) in &flags.values {
            config.set(key, value.clone(), Origin::Flag(key.flag.unwrap_or(key.name)))?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &'static Key, value: String, origin: Origin) -> Result<(), Failure> {
        if let Err(problem) = key.kind.check(&value) {
            let message = format!("{origin}: {} is `{value}`: {problem}", key.name);
            return Err(Failure::new(Exit::Usage, message).next("`weaver config show` lists every setting"));
        }
        if let Some(setting) = self.settings.iter_mut().find(|setting| setting.key == key) {
            setting.value = value;
            setting.origin = origin;
        }
        Ok(())
    }

    pub(crate) fn text(&self, key: &'static Key) -> &str {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or(key.default, |setting| &setting.value)
    }

    /// Who said so.
    pub(crate) fn origin(&self, key: &'static Key) -> &Origin {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or(&Origin::Default, |setting| &setting.origin)
    }

    /// A path, if there is one.
    pub(crate) fn path(&self, key: &'static Key) -> Option<&Path> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(Path::new)
    }

    pub(crate) fn names(&self, key: &'static Key) -> Vec<String> {
        self.text(key).split(',').map(|name| name.trim().to_owned()).collect()
    }

    pub(crate) fn count(&self, key: &'static Key) -> u32 {
        self.text(key).parse().expect("a setting is checked when it is set, and so are the defaults")
    }

    pub(crate) fn span(&self, key: &'static Key) -> Duration {
        parse_span(self.text(key)).expect("a setting is checked when it is set, and so are the defaults")
    }
}

/// A relative path in a file counts from that file, wherever the command is run.
fn beside(file: &Path, value: &str) -> String {
    let is_relative = value.starts_with("./") || value.starts_with("../");
    match file.parent().filter(|parent| is_relative && !parent.as_os_str().is_empty()) {
        Some(parent) => parent.join(value.strip_prefix("./").unwrap_or(value)).display().to_string(),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in keys::ALL {
            assert_eq!(key.kind.check(key.default), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn relative_paths_count_from_the_file() {
        assert_eq!(beside(Path::new("conf/weaver.toml"), "./data"), "conf/data");
        assert_eq!(beside(Path::new("weaver.toml"), "./data"), "./data");
        assert_eq!(beside(Path::new("conf/weaver.toml"), "/data"), "/data");
        assert_eq!(beside(Path::new("conf/weaver.toml"), "memory:"), "memory:");
    }
}
