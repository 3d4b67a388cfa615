//! Where Weaver meets the operating system. For now: the real clock. Handlers and workers come here next.

mod clock;

pub use clock::SystemClock;
