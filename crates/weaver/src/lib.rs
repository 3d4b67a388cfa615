#![doc = include_str!("../../../README.md")]

pub use weaver_core as core;
pub use weaver_core::prelude;
pub use weaver_runtime as runtime;
