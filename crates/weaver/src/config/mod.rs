//! Settings: `weaver.toml` < `WEAVER_*` < flags. Every value has its origin.

mod confine;
mod environment;
mod file;
mod handlers;
pub(crate) mod keys;
mod kind;
mod limit_keys;
mod merge_keys;
mod nearest;
mod profiles;
mod templates;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use crate::config::kind::parse_span;

use weaver_handlers::BuiltIn;

use crate::config::confine::Confine;
use crate::config::keys::Key;
use crate::config::kind::Kind;
use crate::config::profiles::Profiles;
use crate::config::templates::Templates;
use crate::exit::{Exit, Failure};

pub(crate) const FILE: &str = "weaver.toml";

/// Where a value was set; later variants win.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(&'static str),
}

impl Origin {
    /// The word in JSON.
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

/// A value as text, checked by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl Setting {
    /// Without secrets.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self.key.kind {
            Kind::Secret if !self.value.is_empty() => "(set, not shown)".into(),
            _ => redacted(&self.value),
        }
    }
}

/// Settings given on the command line.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// The value of `--config`.
    pub(crate) file: Option<PathBuf>,
    pub(crate) values: Vec<(&'static Key, String)>,
}

#[derive(Debug)]
pub(crate) struct Config {
    /// `None`: no file was read.
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Vec<Setting>,
    /// Policy of the built-in handlers, and where it is set; so for the other sections.
    pub(crate) handlers: (BuiltIn, Origin),
    /// Agent profiles by name.
    pub(crate) profiles: (Profiles, Origin),
    pub(crate) confine: (Confine, Origin),
    /// Files that secrets were read from: hidden from commands.
    pub(crate) secret_files: Vec<PathBuf>,
    /// Templates of merge queue notifications.
    pub(crate) templates: (Templates, Origin),
    /// `WEAVER_*` variables that are not settings. Other programs use the prefix too (Kubernetes does for a
    /// service of that name), so they are reported and not refused.
    pub(crate) unknown_variables: Vec<String>,
}

impl Config {
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
            confine: (Confine::default(), Origin::Default),
            secret_files: Vec::new(),
            templates: (Templates::new(), Origin::Default),
            unknown_variables: Vec::new(),
        }
    }

    /// The flags alone, for the output format while the rest cannot be read.
    pub(crate) fn of_flags(flags: &Flags) -> Self {
        let mut config = Self::defaults();
        for (key, value) in &flags.values {
            // An invalid value is reported when everything is read.
            let _ = config.set(key, value.clone(), Origin::Flag(key.flag.unwrap_or(key.name)));
        }
        config
    }

    /// `environment` is passed in, so that tests need not change the process's own.
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
            if let Some((confine, line)) = content.confine {
                config.confine = (confine, Origin::File { path: path.clone(), line });
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
        config.secret_files = environment.files;
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

    pub(crate) fn origin(&self, key: &'static Key) -> &Origin {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or(&Origin::Default, |setting| &setting.origin)
    }

    /// `None`: not set.
    pub(crate) fn path(&self, key: &'static Key) -> Option<&Path> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(Path::new)
    }

    pub(crate) fn names(&self, key: &'static Key) -> Vec<String> {
        self.text(key).split(',').map(|name| name.trim().to_owned()).collect()
    }

    pub(crate) fn count(&self, key: &'static Key) -> u32 {
        self.text(key).parse().expect("settings and defaults are checked")
    }

    pub(crate) fn span(&self, key: &'static Key) -> Duration {
        parse_span(self.text(key)).expect("settings and defaults are checked")
    }
}

/// A URL without its passwords: before an `@`, and in query parameters with such a name.
fn redacted(value: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = value.split_once("://") else { return value.into() };
    // The last `@`: a password may contain one, or a slash.
    let rest = match rest.rsplit_once('@') {
        Some((user, place)) if user.contains(':') => {
            format!("{}:***@{place}", user.split(':').next().unwrap_or_default())
        }
        _ => rest.to_owned(),
    };
    let Some((place, query)) = rest.split_once('?') else { return format!("{scheme}://{rest}").into() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{scheme}://{place}?{}", pairs.collect::<Vec<_>>().join("&")).into()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["password", "secret", "token", "key"].iter().any(|word| name.ends_with(word))
}

/// A relative path in a file is resolved from that file.
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
    fn a_url_is_shown_without_its_passwords() {
        for (value, shown) in [
            ("postgres://ada:secret@db/x", "postgres://ada:***@db/x"),
            ("postgres://ada:se@cr/et@db/x?schema=y", "postgres://ada:***@db/x?schema=y"),
            ("postgres://db/x?user=ada&password=secret", "postgres://db/x?user=ada&password=***"),
            ("http://:secret@proxy:3128", "http://:***@proxy:3128"),
            ("postgres://ada@db/x", "postgres://ada@db/x"),
            ("http://127.0.0.1:7117", "http://127.0.0.1:7117"),
            ("./weaver-data", "./weaver-data"),
        ] {
            assert_eq!(redacted(value), shown);
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
