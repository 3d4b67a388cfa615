//! The plain-git forge on real repositories.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod checkout;
mod hostile;
mod landing;
mod merging;
mod reading;
mod repo;
