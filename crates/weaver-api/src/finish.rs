//! Ends of executions. The worker reports what happened; the server decides what that means.

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

/// Ends to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// Which.
    pub ends: Vec<Finish>,
}

/// How an execution ended. Repeating a report is harmless.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The lease it ran under.
    pub lease: Lease,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// `succeeded`: what it returned, any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    /// `succeeded`: what it returned in hexadecimal digits, if that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([0-9a-fA-F]{2})*$"))]
    pub result_hex: Option<String>,
    /// `failed`, `cancelled`: what it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `failed`: no retry can mend it.
    #[serde(default)]
    pub fatal: bool,
    /// `failed`: run again after this long, whatever the task's policy says; `snoozed`: after this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub retry_after_ms: Option<u64>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The work is done.
    Succeeded,
    /// The handler returned an error.
    Failed,
    /// The handler took longer than the task's timeout.
    TimedOut,
    /// The handler asks to be called again; charges nothing.
    Snoozed,
    /// The handler ended the task for good, without failing it.
    Cancelled,
    /// The worker gives the task back; charges nothing.
    Released,
    /// The handler ended the task itself, in a transaction of its own on the store's database: `recorded`
    /// with `succeeded` if it did, a failed attempt if the task still runs.
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

    /// The lease and the outcome, as the domain has them. Fields that say nothing about this outcome are
    /// refused.
    pub fn into_core(self) -> Result<(core::Lease, Outcome), Invalid> {
        use OutcomeKind::{Cancelled, Failed, Snoozed, Succeeded};
        let kind = self.outcome;
        let given = |field, given: bool, with: &[OutcomeKind]| {
            let reason = "it says nothing about this outcome".to_owned();
            let misplaced = given && !with.contains(&kind);
            if misplaced { Err(Invalid::new(field, Problem::Undecodable { reason })) } else { Ok(()) }
        };
        given("result", self.result.is_some(), &[Succeeded])?;
        given("result_hex", self.result_hex.is_some(), &[Succeeded])?;
        given("error", self.error.is_some(), &[Failed, Cancelled])?;
        given("fatal", self.fatal, &[Failed])?;
        given("retry_after_ms", self.retry_after_ms.is_some(), &[Failed, Snoozed])?;
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
                // The lifecycle cuts errors that are too long.
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

/// Bytes that are JSON to the last one: text around it, or none at all, would not come back.
fn exact_json(bytes: &[u8]) -> Option<Json> {
    // `null` is what an absent result looks like.
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

/// The answers, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishResponse {
    /// One for each.
    pub results: Vec<FinishResult>,
}

/// What became of a reported end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishResult {
    /// Whether it was recorded.
    pub status: FinishStatus,
    /// `recorded`: the task's state now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// `recorded`: due again after this long, if it is to run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_after_ms: Option<u64>,
    /// `result_too_large`: how large it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `result_too_large`: how large it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Whether a reported end was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishStatus {
    /// It was, now or before.
    Recorded,
    /// The lease was lost or the task cancelled: the report changed nothing.
    Lost,
    /// The result is too large to keep: report a failure instead.
    ResultTooLarge,
}
