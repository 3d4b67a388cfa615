//! Shared values as arguments of handlers: what a handler needs is in its signature, so that building a
//! worker without it fails.

use std::any::{TypeId, type_name};
use std::ops::Deref;
use std::sync::Arc;

use crate::ctx::Ctx;
use crate::error::TaskError;

/// A value that the registry shares with handlers, found by its type. An argument of a handler that is
/// registered with [`Registry::handle_with`](crate::Registry::handle_with).
pub struct Shared<T> {
    // Named and private: `.0` is the value's own.
    value: Arc<T>,
}

impl<T> Shared<T> {
    /// The pointer itself, to be kept beyond the handler. Not a method: it would hide one of the value's.
    pub fn into_arc(shared: Self) -> Arc<T> {
        shared.value
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The type of a value that handlers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedType {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl SharedType {
    /// The type's id and name, to be compared with the registry's values.
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// Shared values as a handler's argument: a [`Shared`], or a tuple of up to four.
///
/// # Contract
/// [`from_shared`](FromShared::from_shared) succeeds wherever the types that [`needs`](FromShared::needs)
/// names are shared.
pub trait FromShared: Sized + Send {
    /// The types that must be shared.
    fn needs() -> Vec<SharedType>;
    /// Fails if a type of [`needs`](FromShared::needs) is not shared; the attempt then fails.
    fn from_shared(ctx: &Ctx) -> Result<Self, TaskError>;
}

impl<T: Send + Sync + 'static> FromShared for Shared<T> {
    fn needs() -> Vec<SharedType> {
        vec![SharedType::of::<T>()]
    }

    fn from_shared(ctx: &Ctx) -> Result<Self, TaskError> {
        ctx.shared().map(|value| Self { value })
    }
}

macro_rules! tuple {
    ($($part:ident)+) => {
        impl<$($part: FromShared),+> FromShared for ($($part,)+) {
            fn needs() -> Vec<SharedType> {
                let mut needs = Vec::new();
                $(needs.extend($part::needs());)+
                needs
            }

            fn from_shared(ctx: &Ctx) -> Result<Self, TaskError> {
                Ok(($($part::from_shared(ctx)?,)+))
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
