//! Which lease calls of this process are over: all their tasks have left. A shared lease row is not changed
//! when a member ends, so that ends do not wait for each other; the next lease call deletes the row.
//!
//! A hint only. The server deletes a row after checking that no member is left, and maintenance deletes what
//! no process asked for.

use std::collections::HashMap;

use parking_lot::Mutex;
use weaver_core::id::LeaseToken;

use crate::types::Token;

/// The most tokens that one lease call names.
const OVER_MAX: usize = 64;
/// The most lease calls that are followed: those of lost leases would accumulate.
const FOLLOWED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct OpenLeases(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Tasks of a lease call that have not left.
    left: HashMap<LeaseToken, usize>,
    over: Vec<LeaseToken>,
}

impl OpenLeases {
    /// A lease call was granted this many tasks.
    pub(crate) fn granted(&self, token: LeaseToken, count: usize) {
        if count == 0 {
            return;
        }
        let mut state = self.0.lock();
        if state.left.len() >= FOLLOWED_MAX {
            state.left.clear();
        }
        state.left.insert(token, count);
    }

    /// A task of each of these leases has left.
    pub(crate) fn left(&self, tokens: impl Iterator<Item = LeaseToken>) {
        let mut state = self.0.lock();
        for token in tokens {
            let Some(count) = state.left.get_mut(&token) else { continue };
            *count -= 1;
            if *count == 0 {
                state.left.remove(&token);
                state.over.push(token);
            }
        }
    }

    /// Leases that are over, each once.
    pub(crate) fn take_over(&self) -> Option<Vec<Token>> {
        let mut state = self.0.lock();
        let count = state.over.len().min(OVER_MAX);
        let over: Vec<Token> = state.over.drain(..count).map(Token).collect();
        (!over.is_empty()).then_some(over)
    }
}
