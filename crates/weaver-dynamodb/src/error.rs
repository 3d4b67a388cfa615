//! What keeps a store from being opened.

use weaver_core::error::Error;

/// Why a store in DynamoDB cannot be opened. Each says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It is not on this machine, and nobody said that it may be elsewhere.
    #[error(
        "{endpoint} is not this machine: seed 000 keeps the queue in DynamoDB Local; set `dynamodb.allow_aws = true` \
         if tasks may go there"
    )]
    NotLocal {
        /// Where it is.
        endpoint: String,
    },
    /// There are no credentials for a place that checks them.
    #[error("no credentials for {endpoint}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    NoCredentials {
        /// Where.
        endpoint: String,
    },
    /// A text that names no place.
    #[error("`{text}` names no DynamoDB: write `dynamodb://localhost:8000`")]
    NoUrl {
        /// What was given.
        text: String,
    },
    /// Nobody answers.
    #[error(
        "DynamoDB at {endpoint} does not answer: {reason}; start one with `docker run -p 8000:8000 amazon/dynamodb-local`"
    )]
    Unreachable {
        /// Where.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// A table is not there.
    #[error("there is no table `{table}`: make the tables with `weaver store init`")]
    Missing {
        /// Which.
        table: &'static str,
    },
    /// A table is there and is another one.
    #[error("table `{table}` is not what seed 000 says: {difference}; nothing was touched")]
    Different {
        /// Which.
        table: &'static str,
        /// How it differs.
        difference: String,
    },
    /// An index is missing and could not be added.
    #[error(
        "table `{table}` has no index `{index}`, without which no task can be found that is due, and it could not be \
         added: {reason}"
    )]
    NoIndex {
        /// Which table.
        table: &'static str,
        /// Which index.
        index: &'static str,
        /// Why not.
        reason: String,
    },
    /// Anything else.
    #[error(transparent)]
    Store(#[from] Error),
}
