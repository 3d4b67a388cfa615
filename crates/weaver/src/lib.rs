#![doc = include_str!("../../../README.md")]

pub use weaver_core as core;
#[cfg(feature = "dynamodb")]
pub use weaver_dynamodb as dynamodb;
#[cfg(feature = "embedded")]
pub use weaver_embedded as embedded;
#[cfg(feature = "postgres")]
pub use weaver_postgres as postgres;
pub use weaver_runtime as runtime;

/// Tasks, stores, workers and clients: `use weaver::prelude::*;`
pub mod prelude {
    pub use weaver_core::prelude::*;
    pub use weaver_runtime::{
        Client, Ctx, LocalSource, Registry, Shared, Shutdown, StopReason, SystemClock, TaskError, TaskHandle,
        Worker,
    };
}

/// The guide's code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/library.md")]
struct LibraryGuide;
