//! What the codec writes it reads back, what was cut or made up it refuses, and its bytes do not change
//! unnoticed.

mod fuzz;
mod golden;
mod refusals;
mod round_trips;
mod strategies;
