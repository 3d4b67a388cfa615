//! Reading every record of a store that other processes may have open.

use std::sync::Arc;

use weaver::core::clock::Clock;
use weaver::core::quarantine::{CheckProgress, CheckReport};

use crate::config::Config;
use crate::exit::Failure;
use crate::wiring::StoreUrl;

#[cfg(any(feature = "postgres", feature = "dynamodb"))]
use {crate::exit::Exit, weaver::core::error::Error};

impl StoreUrl {
    /// Reads every record and changes nothing; `None` for a store that has to be opened alone to be checked.
    pub(crate) async fn check_records(
        &self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        progress: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                let mut options = options.clone();
                options.migrate = false;
                let store = weaver::postgres::PostgresStore::open(*options, Arc::clone(clock)).await?;
                Ok(Some(store.check(progress, &reads).await.map_err(|error| unchecked(&error))?))
            }
            #[cfg(feature = "dynamodb")]
            Self::DynamoDb(url) => {
                let connection = super::dynamodb::connection(url, config)?;
                let db = connection.open()?;
                weaver::dynamodb::check_tables(&db, &connection.endpoint).await?;
                Ok(Some(
                    weaver::dynamodb::check_records(&db, progress, &reads)
                        .await
                        .map_err(|error| unchecked(&error))?,
                ))
            }
            _ => {
                let _ = (config, clock, progress); // Not every build has a store that needs them.
                Ok(None)
            }
        }
    }
}

/// What documents mean is known to the parts of Weaver that write them.
#[cfg(any(feature = "postgres", feature = "dynamodb"))]
fn reads(kind: &str, body: &[u8]) -> Result<(), String> {
    weaver_scheduler::check_body(kind, body)?;
    weaver_merge::engine::check_body(kind, body)
}

#[cfg(any(feature = "postgres", feature = "dynamodb"))]
fn unchecked(error: &Error) -> Failure {
    Failure::new(Exit::Busy, format!("the store could not be read to its end: {error}"))
        .next("repeat the command; `weaver doctor` looks at the way to the store")
}
