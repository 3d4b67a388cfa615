//! The only place that names a concrete store: parsing store URLs and opening stores. One file per kind of
//! store, each behind [`StoreKind`]; [`KINDS`] lists them. To add one: a file, and a line in that list.

#[cfg(feature = "dynamodb")]
mod dynamodb;
mod embedded;
mod kind;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use weaver::core::clock::Clock;
use weaver_server::StoreMetrics;

use crate::config::Config;
use crate::exit::{Exit, Failure};

pub(crate) use embedded::{DirectoryStore, FORMAT, Listener, Opening};
pub(crate) use kind::{IfMissing, Made, Migrated, MigrationStep, StoreKind};

struct Kind {
    /// URL schemes, without the colon.
    schemes: &'static [&'static str],
    /// An example URL, for messages.
    example: &'static str,
    parse: fn(&str) -> Result<StoreUrl, Failure>,
}

/// Every kind of store. Kinds that this build lacks are refused with the missing cargo feature.
const KINDS: &[Kind] = &[
    memory::KIND,
    embedded::KIND,
    #[cfg(feature = "postgres")]
    postgres::KIND,
    #[cfg(not(feature = "postgres"))]
    Kind {
        schemes: &["postgres", "postgresql"],
        example: "`postgres://…`",
        parse: |text| Err(lacking(text, "PostgreSQL", "postgres")),
    },
    #[cfg(feature = "dynamodb")]
    dynamodb::KIND,
    #[cfg(not(feature = "dynamodb"))]
    Kind {
        schemes: &["dynamodb"],
        example: "`dynamodb://…`",
        parse: |text| Err(lacking(text, "DynamoDB", "dynamodb")),
    },
];

/// A store that is not opened yet. Displayed without its password.
#[derive(Clone)]
pub(crate) struct StoreUrl(Arc<dyn StoreKind>);

impl StoreUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |message: String| Failure::new(Exit::Usage, message).next(known());
        if text.is_empty() {
            return Err(wrong("the store URL is empty".to_owned()));
        }
        let Some((scheme, _)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Ok(Self::new(embedded::Embedded::at(PathBuf::from(text))));
        };
        match KINDS.iter().find(|kind| kind.schemes.contains(&scheme)) {
            Some(kind) => (kind.parse)(text),
            None => Err(wrong(format!("`{text}`: unknown store kind `{scheme}:`"))),
        }
    }

    fn new(kind: impl StoreKind + 'static) -> Self {
        Self(Arc::new(kind))
    }
}

impl Deref for StoreUrl {
    type Target = dyn StoreKind;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "StoreUrl({self})")
    }
}

/// What opening a store needs besides its URL.
#[derive(Clone)]
pub(crate) struct Opener<'a> {
    config: &'a Config,
    clock: Arc<dyn Clock>,
    listener: Listener,
    /// Set by a store that has metrics of its own.
    store_metrics: Arc<OnceLock<StoreMetrics>>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(config: &'a Config, clock: Arc<dyn Clock>, listener: Listener) -> Self {
        Self { config, clock, listener, store_metrics: Arc::default() }
    }

    /// The store's own metrics, once it is open.
    pub(crate) fn store_metrics(&self) -> Arc<OnceLock<StoreMetrics>> {
        Arc::clone(&self.store_metrics)
    }
}

/// Example URLs of all kinds.
fn known() -> String {
    let examples: Vec<&str> = KINDS.iter().map(|kind| kind.example).collect();
    match examples.split_last() {
        Some((last, others)) => format!("use {} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// Documents are checked by the components that write them.
#[cfg(any(feature = "postgres", feature = "dynamodb"))]
fn reads(kind: &str, body: &[u8]) -> Result<(), String> {
    weaver_scheduler::check_body(kind, body)?;
    weaver_merge::engine::check_body(kind, body)
}

#[cfg(any(feature = "postgres", feature = "dynamodb"))]
fn unchecked(error: &weaver::core::error::Error) -> Failure {
    Failure::new(Exit::Busy, format!("reading the store failed: {error}"))
        .next("retry; `weaver doctor` checks the connection to the store")
}

#[cfg(not(all(feature = "postgres", feature = "dynamodb")))]
fn lacking(text: &str, what: &str, feature: &str) -> Failure {
    // The rest of the URL may hold a password.
    let scheme = text.split(':').next().unwrap_or_default();
    let message = format!("`{scheme}://…`: this build of Weaver has no {what} store");
    Failure::new(Exit::Usage, message)
        .next(format!("use a build with the cargo feature `{feature}`, or a directory: --store ./path"))
}

/// A letter, then letters and digits: `C` and `./a` are not schemes.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-'))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_with_and_without_a_scheme_are_directories() {
        let directory = |text: &str| StoreUrl::parse(text).unwrap().place().map(Path::to_owned);
        for text in ["./data", "data", "../a:b", "/var/lib/weaver"] {
            assert_eq!(directory(text).as_deref(), Some(Path::new(text)));
            assert_eq!(directory(&format!("file:{text}")).as_deref(), Some(Path::new(text)));
        }
        assert_eq!(directory("file:///var/lib/weaver").as_deref(), Some(Path::new("/var/lib/weaver")));
        assert_eq!(directory("memory:"), None);
        assert_eq!(StoreUrl::parse("memory:").unwrap().to_string(), "memory:");
    }

    #[test]
    fn a_store_this_build_lacks_is_answered_with_its_feature_and_without_its_password() {
        let mut lacking = Vec::new();
        if !cfg!(feature = "postgres") {
            lacking.push(("postgres://u:secret@h/db", "`postgres`"));
        }
        if !cfg!(feature = "dynamodb") {
            lacking.push(("dynamodb://localhost:8000", "`dynamodb`"));
        }
        for (text, feature) in lacking {
            let failure = StoreUrl::parse(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.next.as_ref().is_some_and(|next| next.contains(feature)), "{failure:?}");
            assert!(!format!("{failure:?}").contains("secret"));
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_database_is_shown_without_its_password() {
        let url = StoreUrl::parse("postgres://u:secret@h:5433/db?schema=x").unwrap();
        assert_eq!(url.to_string(), "postgres://u@h:5433/db");
        assert!(!format!("{url:?}").contains("secret"));
        let failure = StoreUrl::parse("postgres://u:secret@h/db?shema=x").unwrap_err();
        assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused_with_those_there_are() {
        for text in ["", "redis://localhost", "memory:x", "file:", "file://host/path"] {
            let failure = StoreUrl::parse(text).unwrap_err();
            assert!(failure.next.is_some(), "{text}: {failure:?}");
        }
        let next = StoreUrl::parse("redis://localhost").unwrap_err().next;
        let known = "use `memory:`, a directory (`./path`), `file:path`, `postgres://…` or `dynamodb://…`";
        assert_eq!(next.as_deref(), Some(known));
    }
}
