//! Helpers for answers: expected refusals, and paged lists.

use std::fmt::Debug;

use weaver_core::error::{Error, Invalid, Problem, Result};
use weaver_core::id::Version;
use weaver_core::ports::{Cursor, Page};

/// The refusal of an invalid call.
pub(super) fn refusal<T: Debug>(answer: Result<T>) -> Invalid {
    match answer {
        Err(Error::Invalid(invalid)) => invalid,
        other => panic!("the call should be refused as invalid, not {other:?}"),
    }
}

/// The actual version that a conditional write found.
pub(super) fn conflict<T: Debug>(answer: Result<T>) -> Version {
    match answer {
        Err(Error::Conflict { found, .. }) => found,
        other => panic!("the write should meet another version, not {other:?}"),
    }
}

/// Reads all pages of a list.
pub(super) async fn pages<T, F>(mut read: impl FnMut(Option<Cursor>) -> F) -> Vec<Page<T>>
where
    F: Future<Output = Result<Page<T>>>,
{
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        assert!(pages.len() < 1000, "the list does not end");
        let page = read(cursor).await.expect("the store answers");
        cursor = page.next.clone();
        pages.push(page);
        if cursor.is_none() {
            return pages;
        }
    }
}

/// All items of the pages, none of which may exceed the limit.
pub(super) fn items<T>(pages: Vec<Page<T>>, limit: u32) -> Vec<T> {
    assert!(pages.iter().all(|page| page.items.len() <= limit as usize), "a page is too long");
    pages.into_iter().flat_map(|page| page.items).collect()
}

/// Page limits are 1 to 1000.
pub(super) fn assert_page_limit_is_refused(refusal: &Invalid, value: u32) {
    assert_eq!(refusal.field, "limit");
    assert_eq!(refusal.problem, Problem::OutOfRange { value: value.into(), min: 1, max: 1000 });
}
