//! A store with injected faults.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};
use weaver_core::ports::Store;

use crate::faults::unreadable::Pretence;
use crate::faults::{CallSite, Fault, Plan};
use crate::intercept::{Answer, Call, Intercept, Intercepted};

/// A store whose calls fail as a [`Plan`] says.
pub type FaultyStore = Intercepted<Faults>;

/// Injects faults into the calls of a store.
pub struct Faults {
    plan: Box<dyn Plan>,
    clock: Arc<dyn Clock>,
    calls: Mutex<HashMap<&'static str, u64>>,
    /// The last answer to each read, by the call's debug text.
    answers: Mutex<HashMap<String, Answer>>,
    pub(super) pretence: Pretence,
}

impl FaultyStore {
    /// Decorates a store. Delays are measured by `clock`.
    pub fn new(inner: Arc<dyn Store>, clock: Arc<dyn Clock>, plan: impl Plan + 'static) -> Self {
        let (calls, answers, pretence) = Default::default();
        Self::of(inner, Faults { plan: Box::new(plan), clock, calls, answers, pretence })
    }
}

#[async_trait]
impl Intercept for Faults {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        if let Some(answer) = self.pretence.answer(&call) {
            return answer;
        }
        let answer = self.make(call.clone(), store.as_ref()).await?;
        Ok(self.pretence.edit(&call, answer))
    }
}

impl Faults {
    fn next_fault(&self, method: &'static str) -> (CallSite, Fault) {
        let number = {
            let mut calls = self.calls.lock();
            let number = calls.entry(method).or_default();
            *number += 1;
            *number
        };
        let site = CallSite { method, number };
        match self.plan.fault(&site) {
            // A repeated wait would add a second timeout.
            Fault::Duplicate if method == "wait" => (site, Fault::None),
            fault => (site, fault),
        }
    }

    /// Executes a call or not, as the plan says; a read may get a stale answer.
    async fn make(&self, call: Call, store: &dyn Store) -> Result<Answer> {
        let (site, fault) = self.next_fault(call.method());
        if !is_read(&call) {
            return self.suffer(fault, site, call, store).await;
        }
        let question = format!("{call:?}");
        if fault == Fault::StaleRead
            && let Some(answer) = self.answers.lock().get(&question)
        {
            return Ok(answer.clone());
        }
        let answer = self.suffer(fault, site, call, store).await?;
        self.answers.lock().insert(question, answer.clone());
        Ok(answer)
    }

    async fn suffer(&self, fault: Fault, site: CallSite, call: Call, store: &dyn Store) -> Result<Answer> {
        let method = site.method;
        match fault {
            Fault::None | Fault::StaleRead => {
                let answer = call.send(store).await;
                self.plan.done(&site);
                answer
            }
            Fault::FailBefore => Err(unavailable(method, "was not sent")),
            Fault::FailAfter => {
                // The caller never gets it.
                drop(call.send(store).await);
                Err(unavailable(method, "was sent, and its answer was lost"))
            }
            Fault::Delay(span) => {
                self.clock.sleep_until(self.clock.monotonic().saturating_add(span)).await;
                call.send(store).await
            }
            Fault::Duplicate => {
                // The first answer is lost; the second arrives.
                drop(call.clone().send(store).await);
                call.send(store).await
            }
        }
    }
}

/// Whether a call is a read that can get a stale answer.
fn is_read(call: &Call) -> bool {
    matches!(
        call,
        Call::GetTasks { .. } | Call::ListTasks { .. } | Call::Counts { .. } | Call::GetDocument { .. }
    )
}

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Faults").field("calls", &*self.calls.lock()).finish_non_exhaustive()
    }
}

fn unavailable(method: &str, what: &str) -> Error {
    Error::Unavailable { reason: format!("by plan, `{method}` {what}") }
}
