//! Running one handler, whatever it does.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use weaver_core::outcome::Outcome;

use crate::ctx::Ctx;
use crate::registry::Registry;

/// Runs the handler of a task. A panic is a failure that carries its message; a type that nobody registered
/// is a failure that names it and what is registered. Both are retried by the task's policy: the next worker
/// may know better.
pub(crate) async fn execute(registry: &Registry, ctx: &Ctx) -> Outcome {
    let envelope = &ctx.record().spec.envelope;
    let Some(handler) = registry.find(&envelope.task_type) else {
        return Outcome::failed(registry.unknown(&envelope.task_type));
    };
    // In an `async` block, so that a handler that panics before it returns its future is caught as well.
    let work = async { handler.execute(envelope.payload.clone(), ctx.clone()).await };
    // Safe to look at afterwards: what the handler shared is behind its own locks, and nothing else of it is
    // used again.
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Outcome::failed(format!("the handler panicked: {}", panic_message(&*panic))),
    }
}

/// What a panic said. `panic!` carries a `&str` or a `String`; `panic_any` may carry anything.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why")
}
