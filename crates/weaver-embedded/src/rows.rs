//! Reading rows, from a snapshot or from the write under way: every value is unsealed before anybody sees it.

use std::ops::Bound;

use redb::{AccessGuard, ReadableTable};
use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page};
use weaver_core::task::TaskRecord;

use crate::codec::{Undecodable, unseal};
use crate::keys;
use crate::trouble::{OfRow, Outcome, Trouble};
use crate::unreadable::find_task;

/// What is read from: a snapshot's table or that of the write under way.
pub(crate) trait Rows: ReadableTable<&'static [u8], &'static [u8]> {}

impl<T: ReadableTable<&'static [u8], &'static [u8]>> Rows for T {}

/// The bytes of a row as redb lends them.
pub(crate) type Lent<'a> = AccessGuard<'a, &'static [u8]>;

/// A row's key and value.
pub(crate) type Row<'a> = (Lent<'a>, Lent<'a>);

/// Reads one row.
pub(crate) fn read<T>(
    rows: &impl Rows,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, Undecodable>,
) -> Outcome<Option<T>> {
    let Some(value) = rows.get(key)? else { return Ok(None) };
    body_of(key, value.value()).and_then(|body| decode(body).of_row(key)).map(Some)
}

/// The body of a sealed value.
pub(crate) fn body_of<'a>(key: &[u8], value: &'a [u8]) -> Outcome<&'a [u8]> {
    let (tag, rest) = key.split_first().unwrap_or((&0, &[]));
    unseal(*tag, rest, value).of_row(key)
}

/// The rows whose keys begin with `prefix`, from a place on (both ways).
pub(crate) fn scan<'a>(
    rows: &'a impl Rows,
    prefix: &[u8],
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
) -> Outcome<impl DoubleEndedIterator<Item = Outcome<Row<'a>>>> {
    let start = match from {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        given => given,
    };
    let end = match to {
        Bound::Unbounded => Bound::Excluded(keys::after_prefix(prefix)),
        given => given,
    };
    let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
    // A cursor from beyond the prefix asks for nothing; redb would take it for a mistake.
    let empty = match (bounds.0, bounds.1) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end) | Bound::Included(end)) => {
            start >= end
        }
        _ => false,
    };
    let range = if empty { None } else { Some(rows.range::<&[u8]>(bounds)?) };
    Ok(range.into_iter().flatten().map(|row| row.map_err(Trouble::from)))
}

/// All rows whose keys begin with `prefix`, in order.
pub(crate) fn scan_all<'a>(
    rows: &'a impl Rows,
    prefix: &[u8],
) -> Outcome<impl DoubleEndedIterator<Item = Outcome<Row<'a>>>> {
    scan(rows, prefix, Bound::Unbounded, Bound::Unbounded)
}

/// A page of rows whose keys end with a name, by name: those that begin with `begin`, after the cursor.
/// `decode` gets a row's name and sealed value; rows it makes nothing of are left out.
pub(crate) fn page_by_name<T>(
    rows: &impl Rows,
    prefix: &[u8],
    begin: &str,
    cursor: Option<&Cursor>,
    limit: u32,
    decode: impl Fn(&str, &[u8]) -> Option<T>,
) -> Outcome<Page<T>> {
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

/// Reads a task that can be read.
pub(crate) fn read_task(
    rows: &impl Rows,
    namespace: &Namespace,
    number: u32,
    id: TaskId,
) -> Outcome<Option<TaskRecord>> {
    find_task(rows, namespace, number, id)?.transpose().map_err(|fault| fault.into_trouble())
}

/// The number of a namespace, if it ever had anything.
pub(crate) fn namespace_number(rows: &impl Rows, namespace: &Namespace) -> Outcome<Option<u32>> {
    read(rows, &keys::namespace(namespace.as_str()), |body| {
        let mut reader = crate::codec::Reader::of_version(body)?;
        reader.varint_u32("namespace")
    })
}
