//! Options of the store: a PostgreSQL URL with Weaver's own parameters beside the driver's.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use url::Url;
use weaver_core::limits::{Limits, RETENTION_DEFAULT};

use crate::error::OpenError;
use crate::sql::StatementOptions;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long idempotency and schedule keys are kept by default, and for tasks that plain SQL enqueues.
pub(crate) const UNIQUE_FOR_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How to connect a [`PostgresStore`](crate::PostgresStore), its limits and its retention.
///
/// ```text
/// postgres://user:password@host:5432/database?sslmode=verify-full&schema=weaver&pool_max=8
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The URL without Weaver's own parameters.
    url: Url,
    /// A direct connection for LISTEN, where `url` leads to a pooler.
    listen_url: Option<Url>,
    /// Whether `url` leads to a pooler in transaction mode.
    pub(crate) is_pooled: bool,
    /// The schema of all tables and functions; default `weaver`.
    pub schema: String,
    /// The size of the connection pool; one more connection is used for LISTEN.
    pub pool_max: u32,
    /// `statement_timeout` of every connection; `None`: the server's default.
    pub statement_timeout: Option<Duration>,
    /// How long a cancel, or another transition of a single task, waits for a row lock.
    pub lock_timeout: Duration,
    /// How long a call waits for a free connection of the pool.
    pub acquire_timeout: Duration,
    /// The limits on batches, payloads and results that this store enforces.
    pub limits: Limits,
    /// How long finished tasks are kept before maintenance purges them.
    pub retention: Duration,
    /// How long idempotency and schedule keys are kept; at least [`retention`](Self::retention).
    pub unique_for: Duration,
    /// Whether opening the store applies pending migrations.
    pub migrate: bool,
    /// The directory old task logs are moved to; `None`: they stay in the database.
    pub log_directory: Option<PathBuf>,
    /// How long task logs stay in the database (`log_retention_days_db`).
    pub log_retention: Duration,
}

impl PostgresOptions {
    /// Parses a URL. Unknown parameters are refused, so that a mistyped one is not ignored.
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let wrong = |what: String| OpenError::Url(what);
        // The parser's message repeats nothing of the text, and so no password.
        let mut url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(wrong(format!("it begins with `{}:`, not with `postgres://`", url.scheme())));
        }
        let mut options = Self {
            url: url.clone(),
            listen_url: None,
            is_pooled: false,
            schema: "weaver".to_owned(),
            pool_max: 8,
            statement_timeout: None,
            lock_timeout: Duration::from_secs(3),
            acquire_timeout: Duration::from_secs(10),
            limits: Limits::default(),
            retention: RETENTION_DEFAULT,
            unique_for: UNIQUE_FOR_DEFAULT,
            migrate: true,
            log_directory: None,
            log_retention: 7 * DAY,
        };
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let mut theirs = Vec::new();
        for (name, value) in pairs {
            if !options.take(&name, &value)? {
                theirs.push((name, value));
            }
        }
        url.set_query(None);
        if !theirs.is_empty() {
            url.query_pairs_mut().extend_pairs(theirs);
        }
        options.url = url;
        if options.is_pooled && options.listen_url.is_none() {
            return Err(wrong(
                "pooler=transaction needs `listen_url` as well: LISTEN works only on a direct connection"
                    .to_owned(),
            ));
        }
        options.connect_options()?;
        Ok(options)
    }

    /// Sets one of Weaver's parameters; `false` if it is one of the driver's.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, OpenError> {
        match name {
            "schema" => self.schema = checked_schema(value)?,
            "pool_max" => self.pool_max = number(name, value)?.clamp(1, 1000) as u32,
            "statement_timeout_ms" => {
                self.statement_timeout = Some(Duration::from_millis(number(name, value)?));
            }
            "lock_timeout_ms" => self.lock_timeout = Duration::from_millis(number(name, value)?.max(1)),
            "acquire_timeout_ms" => self.acquire_timeout = Duration::from_millis(number(name, value)?.max(1)),
            "listen_url" => {
                let url =
                    Url::parse(value).map_err(|error| OpenError::Url(format!("listen_url: {error}")))?;
                self.listen_url = Some(url);
            }
            "pooler" => {
                self.is_pooled = match value {
                    "transaction" => true,
                    "none" => false,
                    other => {
                        return Err(OpenError::Url(format!(
                            "pooler is `{other}`: give `transaction` for one in transaction mode, or `none`"
                        )));
                    }
                };
            }
            "log_directory" => self.log_directory = Some(PathBuf::from(value)),
            "log_retention_days_db" => self.log_retention = DAY * number(name, value)? as u32,
            "sslmode"
            | "sslrootcert"
            | "sslcert"
            | "sslkey"
            | "host"
            | "port"
            | "user"
            | "password"
            | "dbname"
            | "application_name"
            | "statement-cache-capacity" => return Ok(false),
            other => {
                let known = "schema, pool_max, statement_timeout_ms, lock_timeout_ms, acquire_timeout_ms, \
                             listen_url, pooler, log_directory, log_retention_days_db, sslmode, sslrootcert, sslcert, \
                             sslkey, host, port, user, password, dbname, application_name, \
                             statement-cache-capacity";
                return Err(OpenError::Url(format!("unknown option `{other}`; known are {known}")));
            }
        }
        Ok(true)
    }

    pub(crate) fn connect_options(&self) -> Result<PgConnectOptions, OpenError> {
        connect_options(&self.url)
    }

    pub(crate) fn listen_options(&self) -> Result<PgConnectOptions, OpenError> {
        connect_options(self.listen_url.as_ref().unwrap_or(&self.url))
    }

    pub(crate) fn statement_options(&self) -> StatementOptions<'_> {
        StatementOptions { schema: &self.schema, is_prepared: !self.is_pooled }
    }

    /// User, host, port and database, for logs and messages.
    pub fn redacted(&self) -> Redacted {
        Redacted::of(&self.url)
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PostgresOptions")
            .field("url", &self.redacted().to_string())
            .field("schema", &self.schema)
            .field("pool_max", &self.pool_max)
            .finish_non_exhaustive()
    }
}

impl FromStr for PostgresOptions {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        Self::parse(text)
    }
}

/// A URL without password and parameters, safe to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted(String);

impl Redacted {
    fn of(url: &Url) -> Self {
        let user = if url.username().is_empty() { String::new() } else { format!("{}@", url.username()) };
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        Self(format!("postgres://{user}{}{port}{}", url.host_str().unwrap_or(""), url.path()))
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn connect_options(url: &Url) -> Result<PgConnectOptions, OpenError> {
    let has_name = url.query_pairs().any(|(name, _)| name == "application_name");
    let options = PgConnectOptions::from_str(url.as_str())
        // The driver's message may repeat the value, and so a password.
        .map_err(|_| OpenError::Url("one of PostgreSQL's own options is invalid".to_owned()))?;
    Ok(if has_name { options } else { options.application_name("weaver") })
}

/// The schema's name is interpolated into statements: only names that need no quotes.
fn checked_schema(name: &str) -> Result<String, OpenError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if first && name.bytes().all(fits) && name.len() <= 48 && !name.starts_with("pg_") {
        return Ok(name.to_owned());
    }
    Err(OpenError::Url(format!(
        "schema `{name}`: use up to 48 characters of a–z, 0–9 and _, starting with a letter but not with pg_"
    )))
}

fn number(name: &str, value: &str) -> Result<u64, OpenError> {
    value.parse().map_err(|_| OpenError::Url(format!("{name} is `{value}`: give a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weavers_parameters_are_removed_from_the_url_and_the_drivers_are_kept() {
        let options = PostgresOptions::parse(
            "postgres://ada:secret@db.example/jobs?schema=work&pool_max=3&sslmode=require&statement_timeout_ms=500",
        )
        .unwrap();
        assert_eq!((options.schema.as_str(), options.pool_max), ("work", 3));
        assert_eq!(options.statement_timeout, Some(Duration::from_millis(500)));
        assert_eq!(options.url.query(), Some("sslmode=require"));
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let options = PostgresOptions::parse("postgres://ada:s3cret@db.example:5433/jobs").unwrap();
        assert_eq!(options.redacted().to_string(), "postgres://ada@db.example:5433/jobs");
        assert!(!format!("{options:?}").contains("s3cret"));
        for text in ["postgres://ada:s3cret@db.example:port/jobs", "postgres://ada:s3cret@h/d?sslmode=s3cret"]
        {
            let refusal = PostgresOptions::parse(text).unwrap_err();
            assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal:?}");
        }
    }

    #[test]
    fn a_mistyped_option_is_refused_with_the_known_ones() {
        let refusal = PostgresOptions::parse("postgres://h/d?shema=x").unwrap_err().to_string();
        assert!(refusal.contains("`shema`") && refusal.contains("schema, pool_max"), "{refusal}");
    }

    #[test]
    fn a_schema_that_would_need_quotes_is_refused() {
        for name in ["a b", "", "1a", "pg_x", "Ä", "a\"; drop"] {
            let url = format!("postgres://h/d?schema={}", name.replace(' ', "%20").replace('"', "%22"));
            assert!(PostgresOptions::parse(&url).is_err(), "{name}");
        }
    }
}
