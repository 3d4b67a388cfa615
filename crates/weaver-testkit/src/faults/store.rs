//! The decorator of a store: one place where each fault happens.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};
use weaver_core::ports::Store;

use crate::faults::unreadable::Pretence;
use crate::faults::{CallSite, Fault, Plan};

/// A store whose calls go wrong as a [`Plan`] says.
pub struct FaultyStore {
    pub(super) inner: Arc<dyn Store>,
    plan: Box<dyn Plan>,
    clock: Arc<dyn Clock>,
    calls: Mutex<HashMap<&'static str, u64>>,
    /// The last answer to each read, by method and arguments. `Any`, because each method answers something else.
    answers: Mutex<HashMap<Question, Box<dyn Any + Send>>>,
    pub(super) pretence: Pretence,
}

/// A read: its method, and its arguments as text.
type Question = (&'static str, String);

impl FaultyStore {
    /// Decorates a store. Delays are measured by `clock`.
    pub fn new(inner: Arc<dyn Store>, clock: Arc<dyn Clock>, plan: impl Plan + 'static) -> Self {
        Self {
            inner,
            plan: Box::new(plan),
            clock,
            calls: Mutex::default(),
            answers: Mutex::default(),
            pretence: Pretence::default(),
        }
    }

    fn next_fault(&self, method: &'static str) -> (CallSite, Fault) {
        let number = {
            let mut calls = self.calls.lock();
            let number = calls.entry(method).or_default();
            *number += 1;
            *number
        };
        let site = CallSite { method, number };
        match self.plan.fault(&site) {
            // Waiting again would sit out a second timeout that nobody asked for.
            Fault::Duplicate if method == "wait" => (site, Fault::None),
            fault => (site, fault),
        }
    }

    /// Makes a call, or not, as the plan says.
    pub(super) async fn call<T, F>(
        &self,
        method: &'static str,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let (site, fault) = self.next_fault(method);
        self.suffer(fault, site, make).await
    }

    /// Makes a read; the plan may have it answered from the past.
    pub(super) async fn read<T, F>(
        &self,
        method: &'static str,
        arguments: impl fmt::Debug + Send,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Clone + Send + 'static,
    {
        let (site, fault) = self.next_fault(method);
        let question: Question = (method, format!("{arguments:?}"));
        if fault == Fault::StaleRead
            && let Some(answer) =
                self.answers.lock().get(&question).and_then(|answer| answer.downcast_ref::<T>())
        {
            return Ok(answer.clone());
        }
        let answer = self.suffer(fault, site, make).await?;
        self.answers.lock().insert(question, Box::new(answer.clone()));
        Ok(answer)
    }

    async fn suffer<T, F>(
        &self,
        fault: Fault,
        site: CallSite,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let method = site.method;
        match fault {
            Fault::None | Fault::StaleRead => {
                let answer = make().await;
                self.plan.done(&site);
                answer
            }
            Fault::FailBefore => Err(unavailable(method, "was not sent")),
            Fault::FailAfter => {
                // Whatever it was, the caller never learns it.
                drop(make().await);
                Err(unavailable(method, "was sent, and its answer was lost"))
            }
            Fault::Delay(span) => {
                self.clock.sleep_until(self.clock.monotonic().saturating_add(span)).await;
                make().await
            }
            Fault::Duplicate => {
                // The first answer stays on the way; the second is the one that arrives.
                drop(make().await);
                make().await
            }
        }
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FaultyStore").field("calls", &*self.calls.lock()).finish_non_exhaustive()
    }
}

fn unavailable(method: &str, what: &str) -> Error {
    Error::Unavailable { reason: format!("by plan, `{method}` {what}") }
}
