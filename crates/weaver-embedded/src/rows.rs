//! Reads rows from a snapshot or from the current write transaction, and verifies their checksums.

use std::ops::Bound;

use redb::{AccessGuard, ReadableTable};
use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page};
use weaver_core::task::TaskRecord;

use crate::codec::{Undecodable, unseal};
use crate::fault::{OfRow, StoreFault, StoreResult};
use crate::keys;
use crate::unreadable::find_task;

/// The table of a snapshot or of the current write transaction.
pub(crate) trait Rows: ReadableTable<&'static [u8], &'static [u8]> {}

impl<T: ReadableTable<&'static [u8], &'static [u8]>> Rows for T {}

/// The bytes of a row as redb lends them.
pub(crate) type Lent<'a> = AccessGuard<'a, &'static [u8]>;

/// A row's key and value.
pub(crate) type Row<'a> = (Lent<'a>, Lent<'a>);

/// Reads and decodes one row; `None` if it is not there.
pub(crate) fn read<T>(
    rows: &impl Rows,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, Undecodable>,
) -> StoreResult<Option<T>> {
    let Some(value) = rows.get(key)? else { return Ok(None) };
    body_of(key, value.value()).and_then(|body| decode(body).of_row(key)).map(Some)
}

/// The body of a sealed value.
pub(crate) fn body_of<'a>(key: &[u8], value: &'a [u8]) -> StoreResult<&'a [u8]> {
    let (tag, rest) = key.split_first().unwrap_or((&0, &[]));
    unseal(*tag, rest, value).of_row(key)
}

/// The rows from `from` to `to`; unbounded ends are those of `prefix`.
pub(crate) fn scan<'a>(
    rows: &'a impl Rows,
    prefix: &[u8],
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
) -> StoreResult<impl DoubleEndedIterator<Item = StoreResult<Row<'a>>>> {
    let start = match from {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        given => given,
    };
    let end = match to {
        Bound::Unbounded => Bound::Excluded(keys::after_prefix(prefix)),
        given => given,
    };
    let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
    // A cursor beyond the prefix gives a reversed range, which redb does not accept.
    let empty = match (bounds.0, bounds.1) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end) | Bound::Included(end)) => {
            start >= end
        }
        _ => false,
    };
    let range = if empty { None } else { Some(rows.range::<&[u8]>(bounds)?) };
    Ok(range.into_iter().flatten().map(|row| row.map_err(StoreFault::from)))
}

/// All rows whose keys begin with `prefix`, in order.
pub(crate) fn scan_all<'a>(
    rows: &'a impl Rows,
    prefix: &[u8],
) -> StoreResult<impl DoubleEndedIterator<Item = StoreResult<Row<'a>>>> {
    scan(rows, prefix, Bound::Unbounded, Bound::Unbounded)
}

/// A page of rows whose keys end with a name, in order: names that start with `begin`, after the cursor.
/// `decode` gets a row's name and sealed value; rows for which it returns `None` are skipped.
pub(crate) fn page_by_name<T>(
    rows: &impl Rows,
    prefix: &[u8],
    begin: &str,
    cursor: Option<&Cursor>,
    limit: u32,
    decode: impl Fn(&str, &[u8]) -> Option<T>,
) -> StoreResult<Page<T>> {
    let key_of = |name: &str| [prefix, name.as_bytes()].concat();
    let from = cursor.map_or(Bound::Unbounded, |Cursor(name)| Bound::Excluded(key_of(name)));
    let mut items = Vec::new();
    let mut last = None;
    for row in scan(rows, &key_of(begin), from, Bound::Unbounded)? {
        let (key, value) = row?;
        let key = key.value();
        if items.len() == limit as usize {
            return Ok(Page { items, next: last.map(Cursor), complete: true });
        }
        let Ok(name) = std::str::from_utf8(&key[prefix.len()..]) else { continue };
        items.extend(decode(name, value.value()));
        last = Some(name.to_owned());
    }
    Ok(Page { items, next: None, complete: true })
}

/// Reads a task; an unreadable one is a fault.
pub(crate) fn read_task(
    rows: &impl Rows,
    namespace: &Namespace,
    number: u32,
    id: TaskId,
) -> StoreResult<Option<TaskRecord>> {
    find_task(rows, namespace, number, id)?.transpose().map_err(|unreadable| unreadable.into_fault())
}

/// The number of a namespace; `None` if nothing was ever stored in it.
pub(crate) fn namespace_number(rows: &impl Rows, namespace: &Namespace) -> StoreResult<Option<u32>> {
    read(rows, &keys::namespace(namespace.as_str()), |body| {
        let mut reader = crate::codec::Reader::of_version(body)?;
        reader.varint_u32("namespace")
    })
}
