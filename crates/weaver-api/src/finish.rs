//! Outcomes of attempts. The worker reports what happened; the server decides what becomes of the task.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::error::{Invalid, Problem};
use weaver_core::lease as core;
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::task::TaskState;

use super::json::{from_hex, to_hex};
use super::names::to_ms;
use super::{Json, Lease};

/// Outcomes of attempts, to be recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// One per attempt; the server limits the batch.
    pub ends: Vec<Finish>,
}

/// The outcome of an attempt. Idempotent: a repeated report has the same result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The lease that the attempt ran under.
    pub lease: Lease,
    /// Which of the other fields apply depends on it.
    pub outcome: OutcomeKind,
    /// `succeeded`: the result, any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    /// `succeeded`: the result in hexadecimal digits, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([0-9a-fA-F]{2})*$"))]
    pub result_hex: Option<String>,
    /// `failed`, `cancelled`: the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `failed`: do not retry; the task is dead.
    #[serde(default)]
    pub fatal: bool,
    /// `failed`: the delay before the retry, in place of the task's policy; `snoozed`: the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub retry_after_ms: Option<u64>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The task is done; `result` is kept.
    Succeeded,
    /// The handler returned an error.
    Failed,
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The handler asks to run again later; not counted as a failure.
    Snoozed,
    /// The handler cancelled the task; not counted as a failure.
    Cancelled,
    /// The worker releases the task unharmed; not counted as a failure.
    Released,
    /// The handler ended the task in its own transaction on the store's database. The server reads the task
    /// back: `recorded` as `succeeded`, or as a failed attempt if the task still runs.
    Committed,
}

impl Finish {
    /// The report of an outcome.
    pub fn of(lease: &core::Lease, outcome: &Outcome) -> Self {
        let mut finish = Self {
            lease: Lease::from(lease),
            outcome: OutcomeKind::TimedOut,
            result: None,
            result_hex: None,
            error: None,
            fatal: false,
            retry_after_ms: None,
        };
        match outcome {
            Outcome::Succeeded { result } => {
                finish.outcome = OutcomeKind::Succeeded;
                finish.result = result.as_ref().and_then(|bytes| exact_json(bytes));
                if finish.result.is_none() {
                    finish.result_hex = result.as_ref().map(|bytes| to_hex(bytes));
                }
            }
            Outcome::Failed { error, retry } => {
                finish.outcome = OutcomeKind::Failed;
                finish.error = Some(error.to_string());
                finish.fatal = *retry == Retry::Never;
                if let Retry::After(delay) = retry {
                    finish.retry_after_ms = Some(to_ms(*delay));
                }
            }
            Outcome::TimedOut => {}
            Outcome::Snoozed { delay } => {
                finish.outcome = OutcomeKind::Snoozed;
                finish.retry_after_ms = Some(to_ms(*delay));
            }
            Outcome::Cancelled { message } => {
                finish.outcome = OutcomeKind::Cancelled;
                finish.error = Some(message.to_string());
            }
            Outcome::Released => finish.outcome = OutcomeKind::Released,
            Outcome::Committed => finish.outcome = OutcomeKind::Committed,
        }
        finish
    }

    /// The lease and the outcome as the domain has them; refuses fields that do not apply to the outcome.
    pub fn into_core(self) -> Result<(core::Lease, Outcome), Invalid> {
        use OutcomeKind::{Cancelled, Failed, Snoozed, Succeeded};
        let kind = self.outcome;
        let only_with = |field, given: bool, with: &[OutcomeKind]| {
            let reason = "it does not apply to this outcome".to_owned();
            let misplaced = given && !with.contains(&kind);
            if misplaced { Err(Invalid::new(field, Problem::Undecodable { reason })) } else { Ok(()) }
        };
        only_with("result", self.result.is_some(), &[Succeeded])?;
        only_with("result_hex", self.result_hex.is_some(), &[Succeeded])?;
        only_with("error", self.error.is_some(), &[Failed, Cancelled])?;
        only_with("fatal", self.fatal, &[Failed])?;
        only_with("retry_after_ms", self.retry_after_ms.is_some(), &[Failed, Snoozed])?;
        let error = self.error.as_deref().unwrap_or("");
        let after = self.retry_after_ms.map(Duration::from_millis);
        let outcome = match kind {
            Succeeded => Outcome::Succeeded { result: result_bytes(self.result, self.result_hex)? },
            Failed => {
                let retry = match (self.fatal, after) {
                    (true, Some(_)) => {
                        return Err(Invalid::new("fatal", Problem::Conflicts { other: "retry_after_ms" }));
                    }
                    (true, None) => Retry::Never,
                    (false, Some(delay)) => Retry::After(delay),
                    (false, None) => Retry::ByPolicy,
                };
                // The lifecycle truncates errors that are too long.
                Outcome::Failed { error: error.into(), retry }
            }
            OutcomeKind::TimedOut => Outcome::TimedOut,
            Snoozed => Outcome::Snoozed { delay: after.unwrap_or_default() },
            Cancelled => Outcome::Cancelled { message: error.into() },
            OutcomeKind::Released => Outcome::Released,
            OutcomeKind::Committed => Outcome::Committed,
        };
        Ok((self.lease.try_into()?, outcome))
    }
}

/// Bytes that are JSON to the last byte: whitespace around it would not survive the round trip.
fn exact_json(bytes: &[u8]) -> Option<Json> {
    // `null` would read as an absent result.
    Json::from_bytes(bytes).filter(|json| json.as_str().as_bytes() == bytes && json.as_str() != "null")
}

fn result_bytes(json: Option<Json>, hex: Option<String>) -> Result<Option<Bytes>, Invalid> {
    match (json, hex) {
        (Some(_), Some(_)) => Err(Invalid::new("result_hex", Problem::Conflicts { other: "result" })),
        (Some(json), None) => Ok(Some(Bytes::copy_from_slice(json.as_str().as_bytes()))),
        (None, Some(hex)) => Ok(Some(from_hex("result_hex", &hex)?.into())),
        (None, None) => Ok(None),
    }
}

/// Results in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishResponse {
    /// One per reported outcome.
    pub results: Vec<FinishResult>,
}

/// What became of a reported outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishResult {
    /// Whether it was recorded.
    pub status: FinishStatus,
    /// `recorded`: the task's state now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// `recorded`: the delay before the task runs again, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_after_ms: Option<u64>,
    /// `result_too_large`: the size of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `result_too_large`: the limit for results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Whether a reported outcome was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishStatus {
    /// Recorded, by this report or an identical earlier one.
    Recorded,
    /// The lease expired or the task was cancelled: the report changed nothing.
    Lost,
    /// The result exceeds the limit: report a failure instead.
    ResultTooLarge,
}
