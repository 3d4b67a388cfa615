//! What was written is read back, field by field.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use weaver_core::id::{TaskId, Version};
use weaver_core::ports::{
    Beat, Directive, QueueSettings, RunnerKey, RunnerRecord, RunnerStatus, StateCounts,
};
use weaver_core::task::{Dispatch, TaskRecord, TaskState};
use weaver_embedded::codec::*;

use crate::strategies::*;

pub(crate) fn spec_bytes(record: &TaskRecord) -> Vec<u8> {
    let mut writer = Writer::new();
    encode_spec(&mut writer, &record.spec, record.created_at);
    writer.body().to_vec()
}

pub(crate) fn status_bytes(record: &TaskRecord) -> Vec<u8> {
    let mut writer = Writer::new();
    encode_status(&mut writer, record);
    writer.body().to_vec()
}

pub(crate) fn status_read_like(record: &TaskRecord, bytes: &[u8]) -> Result<TaskRecord, Undecodable> {
    let key = record.key.clone();
    record_from(key.namespace, key.id, Arc::clone(&record.spec), record.created_at, bytes)
}

proptest! {
    #[test]
    fn a_spec_is_read_as_it_was_written(spec in spec(), created_at in timestamp()) {
        let mut writer = Writer::new();
        encode_spec(&mut writer, &spec, created_at);
        prop_assert_eq!(decode_spec(writer.body()), Ok((spec, created_at)));
    }

    #[test]
    fn a_record_is_read_as_it_was_written(record in record()) {
        let read = status_read_like(&record, &status_bytes(&record));
        prop_assert_eq!(read.as_ref(), Ok(&record));
    }

    #[test]
    fn an_error_that_the_last_attempt_reported_is_stored_once(record in record(), error in "[a-z]{500}") {
        let mut record = record;
        let mut attempts = record.attempts.to_vec();
        prop_assume!(!attempts.is_empty());
        attempts.last_mut().unwrap().error = Some(error.as_str().into());
        record.attempts = weaver_core::task::Attempts::from_oldest_first(attempts);
        record.last_error = None;
        let without = status_bytes(&record).len();
        record.last_error = Some(error.as_str().into());
        prop_assert_eq!(status_bytes(&record).len(), without);
        let read = status_read_like(&record, &status_bytes(&record)).unwrap();
        // And it is one text in memory too.
        let of_attempt = read.attempts.last().unwrap().error.clone().unwrap();
        prop_assert!(Arc::ptr_eq(&read.last_error.unwrap(), &of_attempt));
    }

    #[test]
    fn a_document_is_read_as_it_was_written(
        version in any::<u64>(), due in of(timestamp()), updated_at in timestamp(), body in of(bytes()),
    ) {
        let document = StoredDocument { version: Version(version), due, updated_at, body };
        let mut writer = Writer::new();
        encode_document(&mut writer, &document);
        prop_assert_eq!(decode_document(writer.body()), Ok(document));
    }

    #[test]
    fn a_journal_entry_is_read_as_it_was_written(at in timestamp(), body in bytes()) {
        let mut writer = Writer::new();
        encode_entry(&mut writer, at, &body);
        prop_assert_eq!(decode_entry(writer.body()), Ok(StoredEntry { at, body }));
    }

    #[test]
    fn a_unique_key_is_read_as_it_was_written(task in any::<u64>(), until in timestamp()) {
        let key = StoredUniqueKey { task: TaskId(task), until };
        let mut writer = Writer::new();
        encode_unique_key(&mut writer, key);
        prop_assert_eq!(decode_unique_key(writer.body()), Ok(key));
    }

    #[test]
    fn a_queue_and_a_group_are_read_as_they_were_written(
        counts in vec(any::<u64>(), TaskState::ALL.len()), version in any::<u64>(), paused in any::<bool>(),
        max_running in of(1..=u32::MAX), last_at in timestamp(), assigns in any::<bool>(),
    ) {
        let counts = counts_of(&counts);
        let settings = QueueSettings {
            paused,
            max_running,
            dispatch: if assigns { Dispatch::Assign } else { Dispatch::Pull },
        };
        let queue = StoredQueue { counts, settings, version: Version(version) };
        let mut writer = Writer::new();
        encode_queue(&mut writer, &queue);
        prop_assert_eq!(decode_queue(writer.body()), Ok(queue));

        let group = StoredGroup { counts, last_at };
        writer.clear();
        encode_group(&mut writer, &group);
        prop_assert_eq!(decode_group(writer.body()), Ok(group));
    }

    #[test]
    fn a_runner_and_its_directive_are_read_as_they_were_written(runner in runner(), since in timestamp()) {
        let mut writer = Writer::new();
        encode_runner(&mut writer, &runner);
        let read = decode_runner(runner.beat.key.clone(), writer.body());
        prop_assert_eq!(read.as_ref(), Ok(&runner));

        let stored = StoredDirective { directive: runner.directive, since };
        writer.clear();
        encode_directive(&mut writer, stored);
        prop_assert_eq!(decode_directive(writer.body()), Ok(stored));
    }
}

fn counts_of(numbers: &[u64]) -> StateCounts {
    let mut counts = StateCounts::default();
    for (state, number) in TaskState::ALL.into_iter().zip(numbers) {
        counts.set(state, *number);
    }
    counts
}

pub(crate) fn runner() -> impl Strategy<Value = RunnerRecord> {
    let directive = prop::sample::select(Directive::ALL.to_vec());
    let status = prop::sample::select(vec![RunnerStatus::Running, RunnerStatus::Stopped]);
    (
        (
            namespace(),
            worker_id(),
            of(name()),
            timestamp(),
            vec(queue_name(), 0..4),
            of(vec(task_type(), 0..4)),
        ),
        (any::<u32>(), any::<u32>(), any::<bool>(), of(duration()), timestamp(), status, directive),
    )
        .prop_map(|(beat, rest)| {
            let (namespace, runner_id, project_root, started_at, queues, types) = beat;
            let (capacity, running, draining, every, last_heartbeat, status, directive) = rest;
            let key = RunnerKey { namespace, runner_id };
            let beat =
                Beat { key, project_root, started_at, queues, types, capacity, running, draining, every };
            RunnerRecord { beat, last_heartbeat, status, directive }
        })
}
