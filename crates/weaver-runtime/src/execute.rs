//! Running one handler; panics become failures.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use weaver_core::outcome::Outcome;

use crate::ctx::Ctx;
use crate::registry::Registry;

/// Runs the handler of a task. A panic is a failure with its message; a type without a handler is a failure
/// that names the registered ones. Both are retried by the task's policy: another worker may have a handler.
pub(crate) async fn execute(registry: &Registry, ctx: &Ctx) -> Outcome {
    let envelope = &ctx.record().spec.envelope;
    let Some(handler) = registry.find(&envelope.task_type) else {
        return Outcome::failed(registry.unknown(&envelope.task_type));
    };
    // In an `async` block, so that a handler that panics before it returns its future is caught as well.
    let work = async { handler.execute(envelope.payload.clone(), ctx.clone()).await };
    // Unwind safe: shared values are behind their own locks, and the rest of the handler is not used again.
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Outcome::failed(format!("the handler panicked: {}", panic_message(&*panic))),
    }
}

/// The message of a panic. `panic!` carries a `&str` or a `String`; `panic_any` may carry anything.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
