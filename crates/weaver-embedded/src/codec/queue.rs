//! Queues (settings and counts) and task groups (counts).

use weaver_core::id::Version;
use weaver_core::ports::{QueueSettings, StateCounts};
use weaver_core::task::{Dispatch, TaskState};
use weaver_core::time::Timestamp;

use super::{Defect, FORMAT_VERSION, Reader, Undecodable, Writer};

/// A queue's row value; its name is the row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredQueue {
    /// Its tasks by state.
    pub counts: StateCounts,
    /// Pause and concurrency limit, as an operator set them.
    pub settings: QueueSettings,
    /// The version of the settings; 0 if they were never set.
    pub version: Version,
}

/// A task group's row value; its id is the row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredGroup {
    /// Its tasks that have not been purged, by state.
    pub counts: StateCounts,
    /// When one of them last changed state.
    pub last_at: Timestamp,
}

/// Encodes counts, settings version and settings.
pub fn encode_queue(writer: &mut Writer, queue: &StoredQueue) {
    writer.u8(FORMAT_VERSION);
    write_counts(writer, &queue.counts);
    writer.varint(queue.version.0);
    writer.two_bools(queue.settings.paused, queue.settings.dispatch == Dispatch::Assign);
    writer.option(queue.settings.max_running, |writer, number| writer.varint(number.into()));
}

/// Decodes what [`encode_queue`] wrote; refuses a `max_running` of 0.
pub fn decode_queue(body: &[u8]) -> Result<StoredQueue, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let counts = read_counts(&mut reader)?;
    let version = Version(reader.varint("version")?);
    let (paused, assigns) = reader.two_bools("paused")?;
    let settings = QueueSettings {
        paused,
        max_running: reader.option("max_running", |reader| reader.varint_u32("max_running"))?,
        dispatch: if assigns { Dispatch::Assign } else { Dispatch::Pull },
    };
    reader.finish("queue")?;
    // A limit of zero would block the queue without being a pause.
    settings.validate().map_err(|_| Undecodable::new("max_running", Defect::OutOfRange))?;
    Ok(StoredQueue { counts, settings, version })
}

/// Encodes counts and the time of the last change.
pub fn encode_group(writer: &mut Writer, group: &StoredGroup) {
    writer.u8(FORMAT_VERSION);
    write_counts(writer, &group.counts);
    writer.timestamp(group.last_at);
}

/// Decodes what [`encode_group`] wrote.
pub fn decode_group(body: &[u8]) -> Result<StoredGroup, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let counts = read_counts(&mut reader)?;
    let last_at = reader.timestamp("last_at")?;
    reader.finish("group")?;
    Ok(StoredGroup { counts, last_at })
}

/// In the order of format version 1, which a state added to core must not change.
const STATES: [TaskState; 9] = [
    TaskState::Queued,
    TaskState::Scheduled,
    TaskState::Assigned,
    TaskState::Orphaned,
    TaskState::Running,
    TaskState::RetryScheduled,
    TaskState::Succeeded,
    TaskState::Dead,
    TaskState::Cancelled,
];

fn write_counts(writer: &mut Writer, counts: &StateCounts) {
    for state in STATES {
        writer.varint(counts.get(state));
    }
}

fn read_counts(reader: &mut Reader<'_>) -> Result<StateCounts, Undecodable> {
    let mut counts = StateCounts::default();
    for state in STATES {
        counts.set(state, reader.varint("counts")?);
    }
    Ok(counts)
}
