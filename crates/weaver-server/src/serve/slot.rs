//! The slot of one connection (behind a proxy: of one request), and which limit it counts towards.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use weaver_core::time::Monotonic;

use super::admission::{Admission, Arrival, Full};

/// Which limit a slot counts towards. Released when it changes or is dropped.
#[derive(Debug)]
pub(super) enum Held {
    /// An address, before authentication.
    Anonymous {
        _arrival: Option<Arrival>,
        _place: OwnedSemaphorePermit,
    },
    /// A trusted proxy: its requests have slots of their own.
    Proxied,
    Token(Arc<str>),
}

/// The slot of a connection. In the extensions of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    admission: Arc<Admission>,
    held: Mutex<Held>,
    /// Since when no request is in progress; `None` while one is.
    idle_since: Mutex<Option<Monotonic>>,
}

impl Slot {
    pub(super) fn new(admission: Arc<Admission>, held: Held) -> Self {
        Self(Arc::new(Inner { admission, held: Mutex::new(held), idle_since: Mutex::new(None) }))
    }

    /// Moves the slot from its address's limit to a token's.
    pub(crate) fn count_for(&self, token: &str) -> Result<(), Full> {
        let mut held = self.0.held.lock();
        if matches!(&*held, Held::Token(shown) if **shown == *token) {
            return Ok(());
        }
        let token: Arc<str> = token.into();
        self.0.admission.take_token(&token)?;
        let before = std::mem::replace(&mut *held, Held::Token(token));
        drop(held);
        self.0.admission.give_back(before);
        Ok(())
    }

    pub(super) fn is_anonymous(&self) -> bool {
        matches!(&*self.0.held.lock(), Held::Anonymous { .. })
    }

    pub(super) fn idle_since(&self) -> Option<Monotonic> {
        *self.0.idle_since.lock()
    }

    pub(super) fn set_idle(&self, since: Option<Monotonic>) {
        *self.0.idle_since.lock() = since;
    }
}

impl Admission {
    fn give_back(&self, held: Held) {
        match held {
            Held::Anonymous { .. } => {}
            Held::Proxied => self.leave_known(),
            Held::Token(token) => self.leave_token(&token),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.held.get_mut() {
            Held::Anonymous { .. } => {}
            Held::Proxied => self.admission.leave_known(),
            Held::Token(token) => self.admission.leave_token(token),
        }
    }
}
