//! Invalid bytes are refused: no panic, no runaway allocation.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weaver_core::id::{TaskId, Version};
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::RunnerKey;
use weaver_embedded::codec::*;

use crate::round_trips::{runner, spec_bytes, status_bytes, status_read_like};
use crate::strategies::*;

/// Every decoder, on the same bytes: whether each could read them.
fn read_as_everything(bytes: &[u8]) -> Vec<bool> {
    let key = RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("w").expect("a name") };
    let created_at = weaver_core::time::Timestamp::MIN;
    let default_spec = weaver_core::task::NewTask::new("t").validate(&weaver_core::limits::Limits::default());
    let spec = default_spec.expect("a plain task is valid").spec;
    vec![
        decode_spec(bytes).is_ok(),
        record_from(Namespace::default(), TaskId(1), Arc::clone(&spec), created_at, bytes).is_ok(),
        decode_document(bytes).is_ok(),
        decode_runner(key, bytes).is_ok(),
        decode_directive(bytes).is_ok(),
        decode_queue(bytes).is_ok(),
        decode_group(bytes).is_ok(),
        decode_entry(bytes).is_ok(),
        decode_unique_key(bytes).is_ok(),
    ]
}

/// Refused at every length but its own, and with anything after it.
fn refused_unless_whole<T>(whole: &[u8], decode: impl Fn(&[u8]) -> Result<T, Undecodable>) {
    for length in 0..whole.len() {
        assert!(decode(&whole[..length]).is_err(), "read from {length} of {} bytes", whole.len());
    }
    assert!(decode(whole).is_ok());
    let longer = [whole, &[0]].concat();
    assert!(matches!(decode(&longer), Err(Undecodable { defect: Defect::TrailingBytes, .. })));
}

proptest! {
    // Each case reads at every length: fewer of them look at as much.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_truncated_spec_or_status_is_refused_at_every_length(record in record()) {
        refused_unless_whole(&spec_bytes(&record), decode_spec);
        refused_unless_whole(&status_bytes(&record), |bytes| status_read_like(&record, bytes));
    }

    #[test]
    fn a_truncated_small_value_is_refused_at_every_length(
        runner in runner(), at in timestamp(), body in bytes(), version in any::<u64>(),
    ) {
        let mut writer = Writer::new();
        encode_runner(&mut writer, &runner);
        refused_unless_whole(writer.body(), |bytes| decode_runner(runner.beat.key.clone(), bytes));
        writer.clear();
        encode_entry(&mut writer, at, &body);
        refused_unless_whole(writer.body(), decode_entry);
        writer.clear();
        let version = Version(version);
        let document = StoredDocument { version, due: Some(at), updated_at: at, body: Some(body) };
        encode_document(&mut writer, &document);
        refused_unless_whole(writer.body(), decode_document);
        writer.clear();
        encode_directive(&mut writer, StoredDirective { directive: runner.directive, since: at });
        refused_unless_whole(writer.body(), decode_directive);
        writer.clear();
        encode_unique_key(&mut writer, StoredUniqueKey { task: TaskId(version.0), until: at });
        refused_unless_whole(writer.body(), decode_unique_key);
        writer.clear();
        encode_queue(&mut writer, &StoredQueue { version, ..StoredQueue::default() });
        refused_unless_whole(writer.body(), decode_queue);
        writer.clear();
        encode_group(&mut writer, &StoredGroup { counts: Default::default(), last_at: at });
        refused_unless_whole(writer.body(), decode_group);
    }
}

proptest! {
    #[test]
    fn made_up_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn made_up_bytes_after_a_good_version_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_as_everything(&[&[FORMAT_VERSION], bytes.as_slice()].concat());
    }

    #[test]
    fn a_changed_byte_never_panics(record in record(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for mut bytes in [spec_bytes(&record), status_bytes(&record)] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = (decode_spec(&bytes), status_read_like(&record, &bytes));
        }
    }

    #[test]
    fn another_format_version_is_refused_by_every_decoder(
        version in (0..=u8::MAX).prop_filter("another", |version| *version != FORMAT_VERSION),
        bytes in vec(any::<u8>(), 0..50),
    ) {
        let readable = read_as_everything(&[&[version], bytes.as_slice()].concat());
        prop_assert!(readable.iter().all(|readable| !readable));
    }
}

#[test]
fn a_name_on_disk_that_no_caller_could_have_chosen_is_refused() {
    let mut writer = Writer::new();
    writer.u8(FORMAT_VERSION);
    writer.u16(0);
    writer.varint(0);
    writer.text("a\nb");
    let refused = Err(Undecodable { field: "task_type", defect: Defect::InvalidName });
    assert_eq!(decode_spec(writer.body()), refused);
}
