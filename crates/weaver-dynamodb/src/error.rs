//! Errors of opening a store.

use weaver_core::error::Error;

/// Why a store in DynamoDB cannot be opened. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The endpoint is on another machine, and `allow_aws` is not set.
    #[error(
        "{endpoint} is not on this machine: set `dynamodb.allow_aws = true` if tasks may be stored there"
    )]
    NotLocal {
        /// The refused endpoint, with its scheme.
        endpoint: String,
    },
    /// A remote endpoint needs credentials, and there are none.
    #[error("no credentials for {endpoint}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    NoCredentials {
        /// The endpoint, with its scheme.
        endpoint: String,
    },
    /// The text is not a `dynamodb://` URL.
    #[error("`{text}` is not a DynamoDB URL: use the form `dynamodb://localhost:8000`")]
    InvalidUrl {
        /// The URL as it was given.
        text: String,
    },
    /// A request for the tables failed.
    #[error(
        "DynamoDB at {endpoint} is unreachable: {reason}; start a local one with \
         `docker run -p 8000:8000 amazon/dynamodb-local`"
    )]
    Unreachable {
        /// The endpoint, with its scheme.
        endpoint: String,
        /// DynamoDB's error code, or the root cause of the connection error.
        reason: String,
    },
    /// A table does not exist.
    #[error("table `{table}` does not exist: create the tables with `{command}`")]
    MissingTable {
        /// Name of the table.
        table: &'static str,
        /// What to run.
        command: String,
    },
    /// A table exists with another key schema or without a required index.
    #[error("table `{table}` does not match seed 000's schema: {difference}; nothing was changed")]
    SchemaMismatch {
        /// Name of the table.
        table: &'static str,
        /// The first difference that was found.
        difference: String,
    },
    /// An index is missing, and was not or could not be added.
    #[error("table `{table}` has no index `{index}`, which leasing needs: {reason}")]
    MissingIndex {
        /// Name of the table.
        table: &'static str,
        /// Name of the index.
        index: &'static str,
        /// DynamoDB's error, or what to run.
        reason: String,
    },
    /// A request of the store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
