//! The codec decodes what it encoded, refuses truncated and random input, and its bytes do not change
//! unnoticed.

mod fuzz;
mod golden;
mod refusals;
mod round_trips;
mod strategies;
