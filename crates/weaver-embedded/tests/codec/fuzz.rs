//! Changed bytes: refused, or read as a value that is written and read back as itself.
//!
//! The first byte of an input chooses the decoder; the rest is what it reads.

use std::fmt::Debug;
use std::sync::Arc;

use weaver_core::id::TaskId;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::RunnerKey;
use weaver_core::task::NewTask;
use weaver_core::time::Timestamp;
use weaver_embedded::codec::*;
use weaver_testkit::fuzz::Target;

/// How it went: the name of the value, or the error.
fn read_twice<T: PartialEq + Debug>(
    body: &[u8],
    name: &str,
    decode: impl Fn(&[u8]) -> Result<T, Undecodable>,
    encode: impl Fn(&mut Writer, &T),
) -> String {
    match decode(body) {
        Ok(value) => {
            let mut writer = Writer::new();
            encode(&mut writer, &value);
            assert_eq!(
                decode(writer.body()).as_ref(),
                Ok(&value),
                "{name} is not read back as it was written"
            );
            name.to_owned()
        }
        Err(error) => format!("{name} {error}"),
    }
}

fn read(input: &[u8]) -> String {
    let Some((choice, body)) = input.split_first() else { return "empty".to_owned() };
    let key =
        || RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("w").expect("a name") };
    let plain = NewTask::new("t").validate(&Limits::default()).expect("a plain task is valid").spec;
    let status = |bytes: &[u8]| {
        record_from(Namespace::default(), TaskId(1), Arc::clone(&plain), Timestamp::MIN, bytes)
    };
    match choice % 9 {
        0 => read_twice(body, "spec", decode_spec, |writer, (spec, at)| encode_spec(writer, spec, *at)),
        1 => read_twice(body, "status", status, encode_status),
        2 => read_twice(body, "document", decode_document, encode_document),
        3 => read_twice(body, "runner", |bytes| decode_runner(key(), bytes), encode_runner),
        4 => {
            read_twice(body, "directive", decode_directive, |writer, value| encode_directive(writer, *value))
        }
        5 => read_twice(body, "queue", decode_queue, encode_queue),
        6 => read_twice(body, "group", decode_group, encode_group),
        7 => read_twice(body, "entry", decode_entry, |writer, entry| {
            encode_entry(writer, entry.at, &entry.body);
        }),
        _ => read_twice(body, "unique key", decode_unique_key, |writer, key| encode_unique_key(writer, *key)),
    }
}

#[test]
fn fuzzed_values_are_refused_or_read_back_as_they_are_written() {
    Target::new("codec", env!("CARGO_MANIFEST_DIR")).inputs(100_000).run(read);
}
