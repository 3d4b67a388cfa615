//! Workers and their directives, under seed 000's name for them.

use weaver_core::name::{QueueName, TaskType};
use weaver_core::ports::{Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus};
use weaver_core::time::Timestamp;

use super::{FORMAT_VERSION, Reader, Undecodable, Writer};

/// The directive given to a worker, which need not have sent a heartbeat yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredDirective {
    /// Run, drain or stop.
    pub directive: Directive,
    /// When it was given; directives without a worker expire after a day.
    pub since: Timestamp,
}

/// Encodes a worker's last heartbeat; its key is the row's key.
pub fn encode_runner(writer: &mut Writer, runner: &RunnerRecord) {
    let beat = &runner.beat;
    writer.u8(FORMAT_VERSION);
    writer.timestamp(runner.last_heartbeat);
    writer.bool(runner.status == RunnerStatus::Stopped);
    writer.u8(number_of(runner.directive));
    writer.timestamp(beat.started_at);
    writer.option(beat.project_root.as_deref(), Writer::text);
    write_names(writer, beat.queues.iter().map(QueueName::as_str));
    writer
        .option(beat.types.as_ref(), |writer, types| write_names(writer, types.iter().map(TaskType::as_str)));
    writer.varint(beat.capacity.into());
    writer.varint(beat.running.into());
    writer.two_bools(beat.draining, beat.every.is_some());
    if let Some(every) = beat.every {
        writer.duration(every);
    }
}

/// Decodes what [`encode_runner`] wrote.
pub fn decode_runner(key: RunnerKey, body: &[u8]) -> Result<RunnerRecord, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let last_heartbeat = reader.timestamp("last_heartbeat")?;
    let stopped = reader.bool("status")?;
    let directive = read_directive(&mut reader)?;
    let beat = Beat {
        key,
        started_at: reader.timestamp("started_at")?,
        project_root: reader
            .option("project_root", |reader| reader.text("project_root").map(str::to_owned))?,
        queues: read_names(&mut reader, "queues", |reader| reader.name("queues", QueueName::new))?,
        types: reader.option("types", |reader| {
            read_names(reader, "types", |reader| reader.name("types", TaskType::new))
        })?,
        capacity: reader.varint_u32("capacity")?,
        running: reader.varint_u32("running")?,
        draining: false,
        every: None,
    };
    let (draining, has_every) = reader.two_bools("draining")?;
    let every = has_every.then(|| reader.duration("every")).transpose()?;
    let beat = Beat { draining, every, ..beat };
    reader.finish("runner")?;
    let status = if stopped { RunnerStatus::Stopped } else { RunnerStatus::Running };
    Ok(RunnerRecord { beat, last_heartbeat, status, directive })
}

/// Encodes a directive and when it was given.
pub fn encode_directive(writer: &mut Writer, stored: StoredDirective) {
    writer.u8(FORMAT_VERSION);
    writer.u8(number_of(stored.directive));
    writer.timestamp(stored.since);
}

/// Decodes what [`encode_directive`] wrote.
pub fn decode_directive(body: &[u8]) -> Result<StoredDirective, Undecodable> {
    let mut reader = Reader::of_version(body)?;
    let directive = read_directive(&mut reader)?;
    let since = reader.timestamp("since")?;
    reader.finish("directive")?;
    Ok(StoredDirective { directive, since })
}

fn number_of(directive: Directive) -> u8 {
    match directive {
        Directive::Run => 0,
        Directive::Drain => 1,
        Directive::Stop => 2,
        Directive::Detach => 3,
    }
}

fn read_directive(reader: &mut Reader<'_>) -> Result<Directive, Undecodable> {
    match reader.u8("directive")? {
        0 => Ok(Directive::Run),
        1 => Ok(Directive::Drain),
        2 => Ok(Directive::Stop),
        3 => Ok(Directive::Detach),
        other => Err(Undecodable::unknown("directive", other)),
    }
}

fn write_names<'a>(writer: &mut Writer, names: impl ExactSizeIterator<Item = &'a str>) {
    writer.varint(names.len() as u64);
    for name in names {
        writer.text(name);
    }
}

fn read_names<N>(
    reader: &mut Reader<'_>,
    field: &'static str,
    read: impl Fn(&mut Reader<'_>) -> Result<N, Undecodable>,
) -> Result<Vec<N>, Undecodable> {
    let count = reader.count(field)?;
    // A name in memory is larger than its byte on disk: do not allocate by a corrupt count.
    let mut names = Vec::with_capacity(count.min(Beat::NAMES_MAX));
    for _ in 0..count {
        names.push(read(reader)?);
    }
    Ok(names)
}
